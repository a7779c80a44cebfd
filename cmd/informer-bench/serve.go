package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// serveSpec configures a load server.
type serveSpec struct {
	Custom     bool   `json:"custom"`
	Kinds      bool   `json:"kinds"` // all kinds, with this many objects each
	Hostile    bool   `json:"hostile"`
	Alike      bool   `json:"alike"`
	Seed       uint64 `json:"seed"`
	Objects    int    `json:"objects"`
	ConfigMaps int    `json:"config_maps"` // they never change
	Ring       int    `json:"ring"`        // different events
	Changed    int    `json:"changed"`     // objects that have changed at a relist
	Stamp      bool   `json:"stamp"`       // events carry their send time
	Stream     bool   `json:"stream"`      // lists are streamed
	Relist     bool   `json:"relist"`      // the resource version will expire
	Afresh     bool   `json:"afresh"`      // streamed lists are created while being sent
	Chosen     bool   `json:"chosen"`      // the server supports shard selectors
}

// serving is the first message of a load server.
type serving struct {
	URL       string `json:"url"`
	ListRV    uint64 `json:"list_rv"`
	ExpiredRV uint64 `json:"expired_rv"` // of the list that follows an expired resource version
}

// order is a command from the harness to a load server. answered is the response.
type order struct {
	Do        string  `json:"do"` // play, expire, reset, tell
	Events    int64   `json:"events,omitempty"`
	PerSecond float64 `json:"per_second,omitempty"`
}

type answered struct {
	Error  string `json:"error,omitempty"`
	Listed int64  `json:"listed,omitempty"` // when the last list was requested, Unix ns
	Lists  int    `json:"lists,omitempty"`  // number of lists that were not streamed
}

func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "serve SPEC",
		Short:  "Run the load server of a run",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var spec serveSpec
			if err := json.Unmarshal([]byte(args[0]), &spec); err != nil {
				return fmt.Errorf("serve: %w", err)
			}
			return serve(cmd.Context(), spec, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// serve executes orders until in reaches EOF.
func serve(ctx context.Context, spec serveSpec, in io.Reader, out io.Writer) error {
	var loads []*apiservertest.Load
	for _, kind := range kindsOf(spec) {
		load, err := apiservertest.NewLoad(loadOptions(spec, kind))
		if err != nil {
			return err
		}
		loads = append(loads, load)
	}
	changing := loads
	if spec.ConfigMaps > 0 {
		load, err := apiservertest.NewLoad(configMapOptions(spec))
		if err != nil {
			return err
		}
		loads = append(loads, load)
	}
	srv := apiservertest.New(apiservertest.Options{Seed: spec.Seed, Loads: loads, ShardSelectors: spec.Chosen, Resources: []apiservertest.Resource{widgetResource()}})
	defer srv.Close()
	endpoint, err := srv.Listen(apiservertest.ListenOptions{})
	if err != nil {
		return err
	}
	var first serving
	for _, load := range slices.Backward(loads) {
		if first, err = warm(ctx, spec, load, endpoint.URL); err != nil {
			return fmt.Errorf("serve: warm up: %w", err)
		}
	}
	debug.FreeOSMemory() // free the memory used for encoding, outside of any measurement
	answers := json.NewEncoder(out)
	if err := answers.Encode(first); err != nil {
		return err
	}
	orders := json.NewDecoder(bufio.NewReader(in))
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("serve: read order: %w", err)
		}
		if err := answers.Encode(obey(srv, loads, changing, o)); err != nil {
			return err
		}
	}
}

func obey(srv *apiservertest.Server, loads, changing []*apiservertest.Load, o order) (a answered) {
	switch o.Do {
	case "play":
		for _, load := range changing {
			load.Play(apiservertest.LoadPlay{Events: o.Events, PerSecond: o.PerSecond})
		}
	case "expire":
		for _, load := range changing {
			load.Expire()
		}
	case "reset":
		srv.Stats().Reset()
		for _, load := range loads {
			load.Reset()
		}
	case "tell":
		for _, load := range loads {
			a.Listed = max(a.Listed, load.ListedAt().UnixNano())
			a.Lists += srv.Stats().Requests("list", load.Resource().Resource)
		}
	default:
		a.Error = fmt.Sprintf("unknown order %q", o.Do)
	}
	return a
}

// kindsOf returns the kinds that the server should have.
func kindsOf(spec serveSpec) []objects.Kind {
	only := "pods"
	if spec.Custom {
		only = objects.WidgetPlural
	}
	return slices.DeleteFunc(objects.Kinds(), func(k objects.Kind) bool { return !spec.Kinds && k.Resource.Resource != only })
}

func loadOptions(spec serveSpec, kind objects.Kind) apiservertest.LoadOptions {
	options := objects.Options{Hostile: spec.Hostile, Alike: spec.Alike}
	return apiservertest.LoadOptions{
		Resource: resourceOf(kind.Resource), Objects: spec.Objects, Ring: spec.Ring, Changed: spec.Changed,
		Held: true, Stamp: spec.Stamp, Afresh: spec.Afresh,
		New:    func(i int) object.Object { return kind.New(spec.Seed, i, options) },
		Change: func(obj object.Object, _ int) { objects.Touch(obj, 1) },
	}
}

func configMapOptions(spec serveSpec) apiservertest.LoadOptions {
	return apiservertest.LoadOptions{
		Resource: resourceOf(corev1.SchemeGroupVersion.WithResource("configmaps")), Objects: spec.ConfigMaps, Ring: 1, Held: true,
		New: func(i int) object.Object {
			return objects.LargeConfigMap(spec.Seed, i, objects.Options{Hostile: spec.Hostile})
		},
		Change: func(obj object.Object, _ int) { objects.Touch(obj, 1) },
	}
}

func resourceOf(gvr object.GVR) apiservertest.Resource {
	for _, r := range append(apiservertest.Builtin(), widgetResource()) {
		if r.GVR == gvr {
			return r
		}
	}
	panic("the simulated server has no " + gvr.String())
}

func widgetResource() apiservertest.Resource {
	return apiservertest.Resource{
		GVR:  objects.WidgetVersion().WithResource(objects.WidgetPlural),
		Kind: objects.WidgetKind, Namespaced: true, Status: true,
	}
}

// warm makes the server encode everything that contestants will request.
func warm(ctx context.Context, spec serveSpec, load *apiservertest.Load, url string) (first serving, err error) {
	first.URL = url
	resource := load.Resource()
	accept, path := wire.MediaProtobuf, "/api/v1/"+resource.Resource
	if resource.Group != "" {
		path = "/apis/" + resource.GroupVersion().String() + "/" + resource.Resource
	}
	if resource.Group == objects.WidgetVersion().Group {
		accept = wire.MediaJSON
	}
	ask := func() (uint64, error) {
		if spec.Afresh { // nothing is encoded in advance
			return strconv.ParseUint(load.ListRV(), 10, 64)
		}
		if !spec.Stream {
			if err := read(ctx, url+path, accept); err != nil {
				return 0, err
			}
		}
		// A watch with a one-second timeout ends on its own.
		query := "?watch=1&timeoutSeconds=1&resourceVersion=" + load.ListRV()
		if spec.Stream {
			query = "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
		}
		if err := read(ctx, url+path+query, accept); err != nil {
			return 0, err
		}
		return strconv.ParseUint(load.ListRV(), 10, 64)
	}
	if first.ListRV, err = ask(); err != nil || !spec.Relist {
		return first, err
	}
	load.Expire()
	defer load.Reset()
	first.ExpiredRV, err = ask()
	return first, err
}

func read(ctx context.Context, url, accept string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("GET %s: %w", url, err)
	}
	return nil
}
