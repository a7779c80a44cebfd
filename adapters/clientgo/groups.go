package clientgo

import (
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/lifecycle"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
)

// Admissionregistration implements informers.SharedInformerFactory.
func (f *Factory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(kinds{f}, f.namespace, f.tweak)
}

// Internal implements informers.SharedInformerFactory.
func (f *Factory) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(kinds{f}, f.namespace, f.tweak)
}

// Apps implements informers.SharedInformerFactory.
func (f *Factory) Apps() apps.Interface { return apps.New(kinds{f}, f.namespace, f.tweak) }

// Autoscaling implements informers.SharedInformerFactory.
func (f *Factory) Autoscaling() autoscaling.Interface {
	return autoscaling.New(kinds{f}, f.namespace, f.tweak)
}

// Batch implements informers.SharedInformerFactory.
func (f *Factory) Batch() batch.Interface { return batch.New(kinds{f}, f.namespace, f.tweak) }

// Certificates implements informers.SharedInformerFactory.
func (f *Factory) Certificates() certificates.Interface {
	return certificates.New(kinds{f}, f.namespace, f.tweak)
}

// Coordination implements informers.SharedInformerFactory.
func (f *Factory) Coordination() coordination.Interface {
	return coordination.New(kinds{f}, f.namespace, f.tweak)
}

// Core implements informers.SharedInformerFactory.
func (f *Factory) Core() core.Interface { return core.New(kinds{f}, f.namespace, f.tweak) }

// Discovery implements informers.SharedInformerFactory.
func (f *Factory) Discovery() discovery.Interface {
	return discovery.New(kinds{f}, f.namespace, f.tweak)
}

// Events implements informers.SharedInformerFactory.
func (f *Factory) Events() events.Interface { return events.New(kinds{f}, f.namespace, f.tweak) }

// Extensions implements informers.SharedInformerFactory.
func (f *Factory) Extensions() extensions.Interface {
	return extensions.New(kinds{f}, f.namespace, f.tweak)
}

// Flowcontrol implements informers.SharedInformerFactory.
func (f *Factory) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(kinds{f}, f.namespace, f.tweak)
}

// Lifecycle implements informers.SharedInformerFactory.
func (f *Factory) Lifecycle() lifecycle.Interface {
	return lifecycle.New(kinds{f}, f.namespace, f.tweak)
}

// Networking implements informers.SharedInformerFactory.
func (f *Factory) Networking() networking.Interface {
	return networking.New(kinds{f}, f.namespace, f.tweak)
}

// Node implements informers.SharedInformerFactory.
func (f *Factory) Node() node.Interface { return node.New(kinds{f}, f.namespace, f.tweak) }

// Policy implements informers.SharedInformerFactory.
func (f *Factory) Policy() policy.Interface { return policy.New(kinds{f}, f.namespace, f.tweak) }

// Rbac implements informers.SharedInformerFactory.
func (f *Factory) Rbac() rbac.Interface { return rbac.New(kinds{f}, f.namespace, f.tweak) }

// Resource implements informers.SharedInformerFactory.
func (f *Factory) Resource() resource.Interface { return resource.New(kinds{f}, f.namespace, f.tweak) }

// Scheduling implements informers.SharedInformerFactory.
func (f *Factory) Scheduling() scheduling.Interface {
	return scheduling.New(kinds{f}, f.namespace, f.tweak)
}

// Storage implements informers.SharedInformerFactory.
func (f *Factory) Storage() storage.Interface { return storage.New(kinds{f}, f.namespace, f.tweak) }

// Storagemigration implements informers.SharedInformerFactory.
func (f *Factory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(kinds{f}, f.namespace, f.tweak)
}
