package rest

import "github.com/millrace-dev/millrace/source"

var (
	_ source.Packer     = (*lister)(nil)
	_ source.Chooser    = (*lister)(nil)
	_ source.Selector   = (*lister)(nil)
	_ source.Reuser     = (*lister)(nil)
	_ source.Namespacer = (*lister)(nil)
	_ source.Limited    = (*lister)(nil)
	_ source.Kinded     = (*lister)(nil)
	_ source.Traced     = (*lister)(nil)
	_ source.Sharer     = (*lister)(nil)
)
