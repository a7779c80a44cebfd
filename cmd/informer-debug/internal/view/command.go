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

// Help describes the output, for a command's help.
const Help = `Each change is one line on stdout:
  +  added    (grey and marked "initial" if it existed at the start)
  ~  updated
  -  deleted
AGE is the object's. The latencies are the change's:
  DECODE   from the last byte read to the object
  QUEUE    from there into the queue
  APPLY    from there into the cache
  DELIVER  from there to the handler
For a change detected by a list, DECODE is the time for the whole list.
-o wide adds the UID and the first changed fields. --diff prints a line for each changed field.
--stage shows times instead of latencies. --only shows updates that change the field, and
additions and deletions of objects that have it. -o jsonl prints one JSON object per line, with
all changed paths, old and new values of the first hundred (changes), latencies in nanoseconds
(decodeNs and so on), and the object. -o name prints three words: add, update or delete, the
namespace or "-", and TYPE/NAME. For Secrets, only the changed paths and the metadata are shown.

stderr shows the reflector's states (·), problems (!), and a summary at the end. After the first
sync, problems never stop it: the reflector retries forever.`

// WatchCommand returns the watch command, which writes to s.
func WatchCommand(s terminal.Streams) *cobra.Command {
	var look attach.Flags
	connect := &look.Connect
	var flags Flags
	cmd := &cobra.Command{
		Use:   "watch TYPE[.VERSION][.GROUP][/NAME]",
		Short: "Show the changes of a resource as an informer sees them",
		Long: `watch runs an informer for one resource, or for a single object, and shows its handler's
events. With --attach, it runs no informer but shows events from a running process, for the
informer TYPE or the object TYPE/NAME, and from its handlers and controllers. The process reports
keys and times, not objects. It does not wait for watch: if events come too fast, some are lost,
and stderr reports how many.

` + Help + `

` + attach.Help + `

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
	cmd.Flags().StringVar(&look.To, "attach", "", "process to inspect: "+attach.Forms)
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

// oneType requires a single argument. Its errors explain common mistakes.
func oneType(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return exit.Usage("specify the type to watch, for example \"pods\"")
	case len(args) > 1:
		return exit.Usage("%d arguments: want one TYPE; for a single object use %s/%s", len(args), args[0], args[1])
	}
	if resource, name, ok := attach.CutName(args[0]); ok && (resource == "" || name == "" || strings.Contains(name, "/")) {
		return exit.Usage("%q: want TYPE or TYPE/NAME", args[0])
	}
	return nil
}
