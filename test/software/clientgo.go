package main

import "strings"

// clientGoVersion is the release of client-go whose suites are run.
const clientGoVersion = "v0.37.2"

// clientGo returns a suite for client-go's informers.
func clientGo(name, chosen, pkg string, edits []edit, choose choice) *suite {
	choose.imports = append(choose.imports, `"github.com/millrace-dev/millrace/adapters/clientgo"`)
	return &suite{
		name:     "client-go " + name,
		module:   "k8s.io/client-go",
		version:  clientGoVersion,
		packages: []string{pkg},
		chosen:   "`" + chosen + "`",
		edits:    edits,
		choose:   choose,
	}
}

// at returns an edit that inserts a selection at the start of a function: if Chosen is set, the function
// calls it and returns the result.
func at(file, signature, declaration, call string) []edit {
	return []edit{{file, signature, "// Chosen takes the place of the function below.\nvar Chosen " + declaration + "\n\n" + signature + "\tif Chosen != nil {\n\t\treturn Chosen(" + call + ")\n\t}\n"}}
}

// informerTests matches the tests for a single informer. lookInside matches those that access fields of
// client-go's informer.
const (
	informerTests = "^(TestIndexer|TestListenerResyncPeriods.*|TestResyncCheckPeriod|Test.*SharedInformer.*|TestRemoveOnStopped.*|TestRemoveWhileActive|TestAddWhileActive|TestShutdown|TestEventPanics|TestRemoveEventHandler_.*|TestShutDownEventHandler_.*)$"
	lookInside    = "^(TestResyncCheckPeriod|TestSharedInformerWatchDisruption|TestSharedInformerRemoveHandler|TestSharedInformerRemoveForeignHandler|TestSharedInformerMultipleRegistration|TestRemovingRemovedSharedInformer|TestStateSharedInformer|TestRemoveWhileActive|TestAddWhileActive)$"
)

// sharedInformerChoice returns the edit that makes it possible to replace client-go's basic informer, on
// which all others are built.
func sharedInformerChoice() []edit {
	return at("tools/cache/shared_informer.go",
		"func NewSharedIndexInformerWithOptions(lw ListerWatcher, exampleObject runtime.Object, options SharedIndexInformerOptions) SharedIndexInformer {\n",
		"func(ListerWatcher, runtime.Object, SharedIndexInformerOptions) SharedIndexInformer", "lw, exampleObject, options")
}

// chosenSharedInformers is the code that selects the adapter's informers and counts them.
func chosenSharedInformers() choice {
	return choice{
		imports: []string{
			`chosenruntime "k8s.io/apimachinery/pkg/runtime"`,
			`chosencache "k8s.io/client-go/tools/cache"`,
			`"github.com/millrace-dev/millrace/adapters/clientgo"`,
		},
		code: strings.TrimSpace(`
	chosencache.Chosen = func(lw chosencache.ListerWatcher, example chosenruntime.Object, options chosencache.SharedIndexInformerOptions) chosencache.SharedIndexInformer {
		countChosen()
		return clientgo.NewInformerWithOptions(lw, example, options)
	}`),
	}
}

func sharedInformers() *suite {
	const tests = "tools/cache/shared_informer_test.go"
	edits := sharedInformerChoice()
	const disrupted = "pod2\", UID: \"pod2\", ResourceVersion: \"2\"}})\n\n\t// create the shared informer and resync every 1s\n\tinformer := NewSharedInformer(source, &v1.Pod{}, 1*time.Second)."
	edits = append(edits,
		edit{tests, "1*time.Second).(*sharedIndexInformer)", "1*time.Second).(SharedIndexInformer)"},
		edit{tests, "v1.Pod{}, 0).(*sharedIndexInformer)", "v1.Pod{}, 0).(SharedIndexInformer)"},
		edit{tests, disrupted + "(SharedIndexInformer)", disrupted + "(*sharedIndexInformer)"},
	)
	s := clientGo("shared informer", "NewSharedIndexInformerWithOptions", "./tools/cache", edits, choice{
		imports: []string{`"k8s.io/client-go/tools/cache"`},
		code:    "cache.Chosen = clientgo.NewInformerWithOptions",
	})
	s.run, s.without = informerTests, lookInside
	s.causes = []cause{
		{"tools/cache " + lookInside[1:], "They read or set unexported fields of client-go's informer."},
		{"TestSharedInformerTransformer$", "Its transform changes an object's name, and so its key. Millrace rejects this, and reports it to the watch error handler."},
		{"TestAddOnStoppedSharedInformer$", "It requires the wording of client-go's error. Millrace's error is worded differently."},
		{"TestEventPanics(/many)?$", "It requires a handler to wait for a second after a panic. Millrace delivers the next event immediately."},
	}
	return s
}

func dynamicInformers() *suite {
	return clientGo("dynamic informers", "NewFilteredDynamicSharedInformerFactory", "./dynamic/dynamicinformer", at("dynamic/dynamicinformer/informer.go",
		"func NewFilteredDynamicSharedInformerFactory(client dynamic.Interface, defaultResync time.Duration, namespace string, tweakListOptions TweakListOptionsFunc) DynamicSharedInformerFactory {\n",
		"func(dynamic.Interface, time.Duration, string, TweakListOptionsFunc) DynamicSharedInformerFactory", "client, defaultResync, namespace, tweakListOptions"),
		choice{
			imports: []string{`"time"`, `chosendynamic "k8s.io/client-go/dynamic"`, `"k8s.io/client-go/dynamic/dynamicinformer"`, `"k8s.io/client-go/informers/internalinterfaces"`},
			code: "dynamicinformer.Chosen = func(client chosendynamic.Interface, resync time.Duration, namespace string, tweak dynamicinformer.TweakListOptionsFunc) dynamicinformer.DynamicSharedInformerFactory {\n" +
				"\t\treturn clientgo.NewDynamicSharedInformerFactory(client, resync, clientgo.WithNamespace(namespace), clientgo.WithTweakListOptions(internalinterfaces.TweakListOptionsFunc(tweak)))\n\t}",
		})
}

func metadataInformers() *suite {
	return clientGo("metadata informers", "NewFilteredSharedInformerFactory", "./metadata/metadatainformer", at("metadata/metadatainformer/informer.go",
		"func NewFilteredSharedInformerFactory(client metadata.Interface, defaultResync time.Duration, namespace string, tweakListOptions TweakListOptionsFunc) SharedInformerFactory {\n",
		"func(metadata.Interface, time.Duration, string, TweakListOptionsFunc) SharedInformerFactory", "client, defaultResync, namespace, tweakListOptions"),
		choice{
			imports: []string{`"time"`, `chosenmetadata "k8s.io/client-go/metadata"`, `"k8s.io/client-go/metadata/metadatainformer"`, `"k8s.io/client-go/informers/internalinterfaces"`},
			code: "metadatainformer.Chosen = func(client chosenmetadata.Interface, resync time.Duration, namespace string, tweak metadatainformer.TweakListOptionsFunc) metadatainformer.SharedInformerFactory {\n" +
				"\t\treturn clientgo.NewMetadataSharedInformerFactory(client, resync, clientgo.WithNamespace(namespace), clientgo.WithTweakListOptions(internalinterfaces.TweakListOptionsFunc(tweak)))\n\t}",
		})
}
