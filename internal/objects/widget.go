package objects

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names for the widget kind.
const (
	WidgetKind   = "Widget"
	WidgetPlural = "widgets"
)

// WidgetVersion returns the group and version of widgets.
func WidgetVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "bench.millrace.dev", Version: "v1"}
}

// Widget returns the i-th custom resource, which is about 3 KB as JSON. It resembles a managed database: it
// has a class shared with many others, a status with conditions, and two entries in managedFields. Values
// have the types produced by decoding JSON into an Unstructured: int64 for numbers, map[string]any, []any,
// string and bool.
func Widget(seed uint64, i int, o Options) *unstructured.Unstructured {
	a := newApp(seed, "widget", i, o)
	s := newSource(seed, "widget", i, o.Hostile)
	created := s.created()
	spec := widgetSpec(a)
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": WidgetVersion().String(),
		"kind":       WidgetKind,
		"metadata":   map[string]any{},
		"spec":       spec,
		"status":     widgetStatus(s, i, created),
	}}
	w.SetName(a.name + "-" + suffix(i))
	w.SetNamespace(a.namespace)
	w.SetUID(s.uid())
	w.SetResourceVersion(version(i, 0))
	w.SetGeneration(int64(s.number(1)))
	w.SetCreationTimestamp(created)
	w.SetLabels(a.labels)
	w.SetAnnotations(map[string]string{a.s.fixed("checksum/class"): a.s.hex(32)})
	w.SetFinalizers([]string{WidgetVersion().Group + "/" + a.s.fixed("teardown")})
	w.SetManagedFields([]metav1.ManagedFieldsEntry{
		managed("helm", "", WidgetVersion().String(), created, ownedByWidgetUser(w, spec["parameters"].(map[string]any))),
		managed("widget-controller", "status", WidgetVersion().String(), after(created, 5), ownedByWidgetController(s)),
	})
	return w
}

func widgetSpec(a *app) map[string]any {
	s := a.s
	parameters := map[string]any{}
	for _, name := range []string{"maxConnections", "sharedBuffers", "workMem", "statementTimeout", "checkpointInterval", "logMinDuration"} {
		parameters[s.fixed(name)] = int64(s.number(64 << s.r.IntN(8)))
	}
	var storage []any
	for _, name := range []string{"data", "wal"} {
		size := s.quantity("10Gi", "20Gi", "50Gi")
		storage = append(storage, map[string]any{"name": s.fixed(name), "class": s.fixed("fast"), "size": size.String(), "encrypted": true})
	}
	return map[string]any{
		"className":  s.pick("small", "medium", "large"),
		"engine":     map[string]any{"name": s.fixed("postgres"), "image": a.images[0], "port": int64(s.number(5432))},
		"replicas":   int64(s.number(3)),
		"parameters": parameters,
		"storage":    storage,
		"backup": map[string]any{
			"schedule":  fmt.Sprintf("%d %d * * *", s.r.IntN(60), s.r.IntN(24)),
			"retention": fmt.Sprint(s.number(14)) + "d",
			"bucket":    "s3://" + s.token(10) + "/" + a.name,
		},
		"maintenance": map[string]any{"window": s.pick("Sun 02:00", "Sat 03:00"), "duration": s.fixed("2h"), "enabled": true},
		"users": []any{
			map[string]any{"name": s.fixed("app"), "secretRef": map[string]any{"name": a.name + "-app", "key": s.fixed("password")}},
			map[string]any{"name": s.fixed("reader"), "secretRef": map[string]any{"name": a.name + "-ro", "key": s.fixed("password")}},
		},
	}
}

func widgetStatus(s *source, i int, created metav1.Time) map[string]any {
	var conditions []any
	for n, kind := range []string{"Ready", "BackupSucceeded"} {
		conditions = append(conditions, map[string]any{
			"type": kind, "status": "True", "reason": "AsExpected", "message": s.fixed("all instances answer"),
			"lastTransitionTime": stamp(after(created, 5+n)), "observedGeneration": int64(1),
		})
	}
	return map[string]any{
		"phase":              "Running",
		"observedGeneration": int64(1),
		"endpoint":           fmt.Sprintf("10.%d.%d.%d:5432", i>>16&255, i>>8&255, i&255),
		"heartbeat":          stamp(after(created, 60)),
		"conditions":         conditions,
	}
}

// stamp formats a time as in JSON.
func stamp(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }

func ownedByWidgetUser(w *unstructured.Unstructured, parameters map[string]any) string {
	var f fields
	f.labelsAndOwner(&metav1.ObjectMeta{Labels: w.GetLabels(), Annotations: w.GetAnnotations()})
	f.open("f:spec", true)
	f.leaf("f:backup", "f:className", "f:engine", "f:replicas", "f:storage", "f:users")
	f.open("f:parameters", true)
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		f.leaf("f:" + name)
	}
	f.shut()
	f.shut()
	return f.done()
}

func ownedByWidgetController(s *source) string {
	var f fields
	f.open("f:status", true)
	f.open("f:conditions", true)
	for _, kind := range []string{"BackupSucceeded", "Ready"} {
		f.condition(s, kind, "f:lastTransitionTime", "f:message", "f:observedGeneration", "f:reason", "f:status", "f:type")
	}
	f.shut()
	f.leaf("f:endpoint", "f:heartbeat", "f:observedGeneration", "f:phase")
	f.shut()
	return f.done()
}
