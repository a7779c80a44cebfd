package flight

import "strings"

// Names reports whether text, as typed by a user, refers to the informer with that name. The text may be the
// full name, or the resource at the start of the name, such as pods for "pods in namespace shop", or
// deployments for "deployments.apps". The resource may be in the singular, and built-in Kubernetes resources
// may be specified by their short names, such as po or deploy. An informer whose CRD is not installed is
// named after its kind, such as CronTab; crontabs matches it too.
func Names(text, informer string) bool {
	if begins(informer, text) {
		return true
	}
	if strings.ContainsAny(text, " /") {
		return false
	}
	word, group, _ := strings.Cut(text, ".")
	resource, rest := resourceIn(informer)
	if !means(word, resource) {
		return false
	}
	return group == "" || len(rest) > 1 && rest[0] == '.' && begins(rest[1:], group)
}

// NamesWhole reports whether text is the informer's full name or a synonym for it, so that it cannot also
// refer to an informer with a longer name.
func NamesWhole(text, informer string) bool {
	resource, rest := resourceIn(informer)
	return text == informer || rest == "" && means(text, resource)
}

// resourceIn splits an informer's name into the resource and the rest.
func resourceIn(informer string) (resource, rest string) {
	end := strings.IndexAny(informer, " .")
	if end < 0 {
		end = len(informer)
	}
	return informer[:end], informer[end:]
}

// means reports whether word is a resource's singular or short name, or a synonym for a kind.
func means(word, resource string) bool {
	if word == "" || resource == "" {
		return false
	}
	kind := strings.ToLower(resource)
	if kind != resource && (word == kind || singular(kind, word)) {
		return true
	}
	return singular(word, resource) || shortNames[word] == resource
}

// begins reports whether name starts with words, at a word boundary.
func begins(name, words string) bool {
	rest, ok := strings.CutPrefix(name, words)
	return ok && words != "" && (rest == "" || rest[0] == ' ' || rest[0] == '.')
}

// singular reports whether resource is the English plural of word.
func singular(word, resource string) bool {
	ending, ok := strings.CutPrefix(resource, word)
	if ok {
		return ending == "s" || ending == "es" && strings.ContainsRune("sxhz", rune(word[len(word)-1]))
	}
	stem, ok := strings.CutSuffix(word, "y")
	return ok && resource == stem+"ies"
}

// shortNames are the short names of Kubernetes' built-in resources, which never change. Custom resources
// declare theirs in CRDs, which are not available here.
var shortNames = map[string]string{
	"cj": "cronjobs", "cm": "configmaps", "crd": "customresourcedefinitions", "crds": "customresourcedefinitions",
	"csr": "certificatesigningrequests", "deploy": "deployments", "ds": "daemonsets", "ep": "endpoints", "ev": "events",
	"hpa": "horizontalpodautoscalers", "ing": "ingresses", "limits": "limitranges", "netpol": "networkpolicies",
	"no": "nodes", "ns": "namespaces", "pc": "priorityclasses", "pdb": "poddisruptionbudgets", "po": "pods",
	"pv": "persistentvolumes", "pvc": "persistentvolumeclaims", "quota": "resourcequotas", "rc": "replicationcontrollers",
	"rs": "replicasets", "sa": "serviceaccounts", "sc": "storageclasses", "sts": "statefulsets", "svc": "services",
}
