package apiservertest

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// createSystemNamespaces makes the namespaces that every cluster has.
func (s *Server) createSystemNamespaces() {
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		if _, err := s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			panic(err) // the store is empty
		}
	}
}

// namespaceExists refuses what the NamespaceLifecycle admission plugin does.
// The mutex must be held.
func (s *cluster) namespaceExists(name string) error {
	namespaces := s.collections[corev1.SchemeGroupVersion.WithResource("namespaces")]
	if namespaces == nil || namespaces.objects[name] == nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return nil
}

// nameAlphabet are the characters of generated names: no vowels, so that no
// words appear.
const nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// generateName completes metadata.generateName. The mutex must be held.
func (s *cluster) generateName(prefix string) string {
	const suffix = 5
	prefix = prefix[:min(len(prefix), 63-suffix)]
	random := s.dice.of("name " + prefix)
	name := []byte(prefix)
	for range suffix {
		name = append(name, nameAlphabet[random.IntN(len(nameAlphabet))])
	}
	return string(name)
}
