package flight

import "strings"

// Names reports whether text, which a person has written, means the informer of that name:
// it is the whole name, or the resource that the name begins with, such as pods of "pods in
// namespace shop", or deployments of "deployments.apps". The resource may be in the singular,
// and one of Kubernetes itself may be called by its short name, such as po or deploy. An informer
// that waits for its definition is called by its kind, such as CronTab; crontabs means it, too.
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

// NamesWhole reports whether text means that informer and none whose name is longer: it is the
// whole name, or another word for all of it.
func NamesWhole(text, informer string) bool {
	resource, rest := resourceIn(informer)
	return text == informer || rest == "" && means(text, resource)
}

// resourceIn divides the name of an informer behind the resource.
func resourceIn(informer string) (resource, rest string) {
	end := strings.IndexAny(informer, " .")
	if end < 0 {
		end = len(informer)
	}
	return informer[:end], informer[end:]
}

// means reports whether a word is the singular or the short name of a resource, or another word
// for a kind.
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

// begins reports whether a name begins with a whole word, or with some.
func begins(name, words string) bool {
	rest, ok := strings.CutPrefix(name, words)
	return ok && words != "" && (rest == "" || rest[0] == ' ' || rest[0] == '.')
}

// singular reports whether a resource is the plural of a word, as English has it.
func singular(word, resource string) bool {
	ending, ok := strings.CutPrefix(resource, word)
	if ok {
		return ending == "s" || ending == "es" && strings.ContainsRune("sxhz", rune(word[len(word)-1]))
	}
	stem, ok := strings.CutSuffix(word, "y")
	return ok && resource == stem+"ies"
}

// shortNames are those of Kubernetes' own resources, which never change. The short names of a
// custom resource are in its definition, which is not here.
var shortNames = map[string]string{
	"cj": "cronjobs", "cm": "configmaps", "crd": "customresourcedefinitions", "crds": "customresourcedefinitions",
	"csr": "certificatesigningrequests", "deploy": "deployments", "ds": "daemonsets", "ep": "endpoints", "ev": "events",
	"hpa": "horizontalpodautoscalers", "ing": "ingresses", "limits": "limitranges", "netpol": "networkpolicies",
	"no": "nodes", "ns": "namespaces", "pc": "priorityclasses", "pdb": "poddisruptionbudgets", "po": "pods",
	"pv": "persistentvolumes", "pvc": "persistentvolumeclaims", "quota": "resourcequotas", "rc": "replicationcontrollers",
	"rs": "replicasets", "sa": "serviceaccounts", "sc": "storageclasses", "sts": "statefulsets", "svc": "services",
}
