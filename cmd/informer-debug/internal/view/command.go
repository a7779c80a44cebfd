package view

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/playback"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/config"
)

// Help tells users what is shown, in the help of a verb.
const Help = `Each change is one line on stdout:
  +  added    (grey, and marked "initial", where it was there from the start)
  ~  updated
  -  deleted
AGE is the object's. The latencies are those of the change:
  DECODE   from the last byte read to the object
  QUEUE    from there into the queue
  APPLY    from there into the cache
  DELIVER  from there to the handler
For a change that was found by a list, DECODE is the time of the whole list.
-o wide adds the UID and the first changed fields. --diff writes a line for each, below.
Values of Secrets are in neither. --stage shows moments in the place of latencies. With --only,
updates show that change the field, and objects that have it and come or go. -o jsonl writes one JSON
object a line, with all changed paths, old and new values of the first hundred (changes), latencies
in nanoseconds (decodeNs and so on), and the object. -o name writes three words: add, update or delete, the
namespace or "-", and TYPE/NAME.

stderr tells of the reflector's states (·), of trouble (!), and at the end sums
up. Once synced, trouble never ends it: the reflector tries again for ever.`

// WatchCommand returns the verb watch, which writes to s.
func WatchCommand(s terminal.Streams) *cobra.Command {
	var look attach.Flags
	connect := &look.Connect
	var flags Flags
	cmd := &cobra.Command{
		Use:   "watch TYPE[.VERSION][.GROUP][/NAME]",
		Short: "Show the changes of a resource as an informer sees them",
		Long: `watch runs an informer on one resource, or one object of it, and shows what its
handler hears. With
--attach it runs none: it shows what happens in a running process to the informer TYPE, or to
TYPE/NAME, and to its handlers and controllers. The process tells of keys and times, not of
objects, and does not wait: events that came too quickly are counted on stderr.

` + Help + `

` + exit.See,
		Example: `  informer-debug watch pods -A
  informer-debug watch deployments.v1.apps -n shop -o wide
  informer-debug watch pods -A -o name | while read change ns pod; do echo $change $ns $pod; done
  informer-debug watch pods/web-1 -o jsonl | jq .changes
  informer-debug watch deploy -n shop --only spec.replicas --only '{.spec.template.spec.containers[*].image}' --diff
  informer-debug watch pods -n shop --attach http://localhost:6060
  informer-debug watch crontabs.stable.example.com --watch-only -c 1 --timeout 30s`,
		Args: oneType,
	}
	connect.Add(cmd)
	flags.Add(cmd)
	cmd.Flags().StringVar(&look.To, "attach", "", "process to look into: "+attach.Forms)
	playback.Refuse(cmd, "informer-debug replay %s shows a recording as watch shows a cluster")
	(&sight.Completer{Attach: &look, Namespace: &flags.Namespace, Slash: true}).Register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(connect.Check(), flags.Check()); err != nil {
			return err
		}
		if look.To != "" {
			look.Namespace = flags.Namespace
			f, err := newFollower(s, &look, &flags, args[0])
			if err != nil {
				return err
			}
			return f.run(cmd.Context())
		}
		resource, name, _ := strings.Cut(args[0], "/")
		if name != "" {
			flags.fields = fields.AndSelectors(flags.fields, fields.OneTermEqualSelector("metadata.name", name))
		}
		arg, err := object.ParseResourceArg(resource)
		if err != nil {
			return exit.Usage("%w", err)
		}
		c := terminal.NewConsole(s, flags.Verbose)
		connect.Load.Namespace, connect.Load.Logger = flags.Namespace, c.Logger()
		cfg, err := config.LoadWith(connect.Load)
		if err != nil {
			return &exit.Error{Code: exit.CodeUnavailable, Err: err}
		}
		return (&Job{Streams: s, Config: cfg, Arg: arg, Flags: &flags, Console: c}).Run(cmd.Context())
	}
	return cmd
}

// oneType wants one argument, and knows what people try instead.
func oneType(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return exit.Usage("name what to watch, for example \"pods\"")
	case len(args) > 1:
		return exit.Usage("%d arguments: want one TYPE; for one object say %s/%s", len(args), args[0], args[1])
	}
	if resource, name, ok := attach.CutName(args[0]); ok && (resource == "" || name == "" || strings.Contains(name, "/")) {
		return exit.Usage("%q: want TYPE or TYPE/NAME", args[0])
	}
	return nil
}
