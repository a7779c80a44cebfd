package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/wire"
)

// settings configure the factories.
type settings struct {
	config   *clientrest.Config
	resync   time.Duration
	schedule bool // these are for the scheduler
}

// factories are the informers of a program.
type factories struct {
	typed    informers.SharedInformerFactory
	metadata metadatainformer.SharedInformerFactory       // for the controllers
	dynamic  dynamicinformer.DynamicSharedInformerFactory // for the scheduler
}

// stock returns the factories that the programs create themselves.
func stock(s settings) (*factories, error) {
	client, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return nil, err
	}
	if s.schedule {
		objects, err := dynamic.NewForConfig(s.config)
		if err != nil {
			return nil, err
		}
		return &factories{
			typed:   kubescheduler.NewInformerFactory(client, s.resync, nil),
			dynamic: dynamicinformer.NewDynamicSharedInformerFactory(objects, s.resync),
		}, nil
	}
	objects, err := metadata.NewForConfig(s.config)
	if err != nil {
		return nil, err
	}
	return &factories{
		typed:    informers.NewSharedInformerFactoryWithOptions(client, s.resync, informers.WithTransform(trim)),
		metadata: metadatainformer.NewSharedInformerFactoryWithOptions(objects, s.resync, metadatainformer.WithTransform(trim)),
	}, nil
}

// millrace returns factories with Millrace's informers of the same objects.
func millrace(s settings) (*factories, error) {
	if s.schedule {
		return millraceForScheduler(s)
	}
	typed, err := clientgo.NewSharedInformerFactoryForConfig(s.config, s.resync, clientgo.WithKeep(wire.WithoutManagedFields))
	if err != nil {
		return nil, err
	}
	objects, err := clientgo.NewMetadataSharedInformerFactoryForConfig(s.config, s.resync, clientgo.WithKeep(wire.WithoutManagedFields))
	if err != nil {
		return nil, err
	}
	return &factories{typed: typed, metadata: objects}, nil
}

// millraceForScheduler includes the informer that the scheduler creates itself, which has the Pods that
// have not ended, without their managed fields.
func millraceForScheduler(s settings) (*factories, error) {
	typed, err := clientgo.NewSharedInformerFactoryForConfig(s.config, s.resync)
	if err != nil {
		return nil, err
	}
	objects, err := clientgo.NewDynamicSharedInformerFactoryForConfig(s.config, s.resync)
	if err != nil {
		return nil, err
	}
	client, err := clientgo.FromConfig(s.config)
	if err != nil {
		return nil, err
	}
	pods := clientgo.NewInformerFor(rest.ResourceFor[*corev1.Pod](client).Keep(wire.WithoutManagedFields), clientgo.ResourceOptions{
		ResyncPeriod: s.resync,
		Pool:         wire.NewPool(),
		Tweak: func(opts *metav1.ListOptions) {
			opts.FieldSelector = "status.phase!=" + string(corev1.PodSucceeded) + ",status.phase!=" + string(corev1.PodFailed)
		},
	})
	typed.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return pods })
	return &factories{typed: typed, dynamic: objects}, nil
}

// trim removes the managed fields of an object, as both programs do.
func trim(o any) (any, error) {
	if accessor, err := meta.Accessor(o); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	return o, nil
}
