package rest

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

var (
	_ source.Packer[*corev1.Pod]               = (*Resource[*corev1.Pod])(nil)
	_ source.Reuser[*wire.Packed[*corev1.Pod]] = (*packing[*corev1.Pod])(nil)
	_ source.Limited                           = (*packing[*corev1.Pod])(nil)
)
