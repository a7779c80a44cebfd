package deployment

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/rand"
)

// Annotations from which kubectl reads a Deployment's history.
const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	historyAnnotation  = "deployment.kubernetes.io/revision-history"
	lastApplied        = corev1.LastAppliedConfigAnnotation
)

// revisionOf returns the 1-based number of the ReplicaSet's template in the Deployment's history, or 0
// if it is unknown.
func revisionOf(rs *appsv1.ReplicaSet) int64 {
	revision, err := strconv.ParseInt(rs.Annotations[revisionAnnotation], 10, 64)
	if err != nil {
		return 0 // not a number, so the ReplicaSet gets a new one
	}
	return revision
}

// describe copies a revision and the Deployment's annotations, such as the change cause, to a
// ReplicaSet. It reports whether that changed anything.
func describe(rs *appsv1.ReplicaSet, d *appsv1.Deployment, revision int64) bool {
	before := maps.Clone(rs.Annotations)
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	for k, v := range d.Annotations {
		switch k {
		case revisionAnnotation, historyAnnotation, desiredAnnotation, maxAnnotation, lastApplied: // each object has its own
		default:
			rs.Annotations[k] = v
		}
	}
	if was := revisionOf(rs); was != revision {
		if was > 0 {
			history := rs.Annotations[historyAnnotation]
			if history != "" {
				history += ","
			}
			rs.Annotations[historyAnnotation] = history + strconv.FormatInt(was, 10)
		}
		rs.Annotations[revisionAnnotation] = strconv.FormatInt(revision, 10)
	}
	return !maps.Equal(before, rs.Annotations)
}

// templateHash distinguishes templates in ReplicaSet names and Pod labels. ReplicaSets are matched by
// template, not by hash, so the hash may change between Kubernetes versions.
func templateHash(template *corev1.PodTemplateSpec, collisions int32) string {
	hash := fnv.New32a()
	if err := json.NewEncoder(hash).Encode(template); err != nil {
		panic(err) // k8s.io/api types can be encoded, and writing to a hash never fails
	}
	if collisions > 0 {
		fmt.Fprint(hash, collisions)
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}

// sameTemplate reports whether two templates are equal except for the label added for the ReplicaSet.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(b.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(a, b)
}
