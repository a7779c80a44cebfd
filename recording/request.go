package recording

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Request is a recorded list or watch.
type Request struct {
	Server string // scheme, host, and the part of the path before "/api"
	Path   string // starting with "/api"
	Query  string // list and watch parameters only
	Accept string

	// Informer distinguishes informers with the same subject. It is 0 if the client is unknown.
	Informer uint64 `json:",omitempty"`

	// Withheld means that the request is for Secrets, or that its response might contain some, because it ended before
	// it named a kind and is not an error. Only the size of the response is recorded.
	Withheld bool `json:",omitempty"`

	// At is when the request was sent, Answered when the response header arrived, and Ended when the
	// last part of the body arrived, all relative to the start of the recording. Answered is zero if
	// there was no response.
	At, Answered, Ended time.Duration `json:"-"`

	Answer Answer `json:"-"`
	Bytes  int64  `json:"-"` // size of the body
	Whole  bool   `json:"-"` // whether the end was recorded

	id       uint64
	about    about
	blocks   []uint32 // blocks that contain its records, in order
	answered bool
}

// Answer is a response header.
type Answer struct {
	Status      int
	ContentType string `json:",omitempty"`
	RetryAfter  string `json:",omitempty"`

	// Encoding is the Content-Encoding, such as "gzip", if the body was not decompressed. Such a body is
	// not recorded, because it cannot be searched for credentials.
	Encoding string `json:",omitempty"`
}

// header is the payload of a file's first record.
type header struct {
	Began   time.Time
	Secrets bool    `json:",omitempty"` // whether the contents of Secrets were recorded
	LeftOut LeftOut `json:",omitzero"`
}

// LeftOut counts requests that are missing from the recording.
type LeftOut struct {
	Requests int   // the oldest ones, dropped because of MaxSize, and those with a query of 32 KiB or more
	Bytes    int64 // total size of their bodies
}

// stop is the payload of the last record, written when the recording is closed.
type stop struct {
	LeftOut LeftOut `json:",omitzero"`
}

// about is a request's subject. Several informers may have the same subject; each has its own sequence
// of requests.
type about struct {
	Server, Path, Labels, Fields string
	Metadata                     bool // only metadata
}

// shardSelector is the parameter with which an informer requests only its share of the objects.
const shardSelector = "shardSelector"

// asked returns the names of the parameters to record. Any other parameter may be a credential.
func asked() []string {
	return []string{"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
		"resourceVersionMatch", "sendInitialEvents", shardSelector, "timeoutSeconds", "watch"}
}

// read converts req to a Request. ok is false if req is not a list or watch of a collection.
func read(req *http.Request) (q Request, ok bool) {
	if req.Method != http.MethodGet || req.URL == nil {
		return q, false
	}
	path, before := req.URL.Path, "" // unescaped, as the server sees it
	for at := 0; at < len(path) && !ok; at++ {
		if path[at] == '/' {
			_, _, ok = collection(path[at:])
			before, q.Path = path[:at], path[at:]
		}
	}
	if !ok {
		return q, false
	}
	given, kept := req.URL.Query(), url.Values{}
	for _, name := range asked() {
		if values, has := given[name]; has {
			kept[name] = values
		}
	}
	q.Server = (&url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host}).String() + before
	q.Query, q.Accept = kept.Encode(), req.Header.Get("Accept")
	return q, q.fill()
}

// fill computes the derived fields. It returns false if the request is neither a list nor a watch.
func (q *Request) fill() bool {
	query, err := url.ParseQuery(q.Query)
	if _, _, ok := collection(q.Path); err != nil || !ok {
		return false
	}
	q.about = about{q.Server, q.Path, query.Get("labelSelector"), query.Get("fieldSelector"), strings.Contains(q.Accept, ";as=PartialObjectMetadata")}
	return true
}

// version matches an API version.
var version = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// collection parses the path of a list or watch into resource and namespace. ok is false for other
// paths, such as those of a single object or its log.
func collection(path string) (gvr object.GVR, namespace string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		gvr.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		gvr.Group, gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return gvr, "", false
	}
	if len(parts) == 3 && parts[0] == "namespaces" && !(gvr.Group == "" && (parts[2] == "status" || parts[2] == "finalize")) {
		namespace, parts = parts[1], parts[2:]
	}
	gvr.Resource = parts[0]
	return gvr, namespace, len(parts) == 1 && gvr.Resource != "" && version.MatchString(gvr.Version)
}

// Resource returns the resource that is listed or watched.
func (q *Request) Resource() object.GVR {
	gvr, _, _ := collection(q.Path)
	return gvr
}

// Namespace returns the request's namespace, or "" for all namespaces.
func (q *Request) Namespace() string {
	_, namespace, _ := collection(q.Path)
	return namespace
}

// Selectors returns the label and field selectors.
func (q *Request) Selectors() (labels, fields string) { return q.about.Labels, q.about.Fields }

// MetadataOnly reports whether only metadata was requested.
func (q *Request) MetadataOnly() bool { return q.about.Metadata }

// Watch reports whether the request is a watch, including streaming lists.
func (q *Request) Watch() bool { return q.parameter("watch") == "true" || q.parameter("watch") == "1" }

// initial reports whether the request asks for the full state rather than changes.
func (q *Request) initial() bool { return !q.Watch() || q.parameter("sendInitialEvents") == "true" }

// probe reports whether the request asks only for the server's current version: a
// consistent list with limit 1.
func (q *Request) probe() bool {
	return !q.Watch() && q.parameter("limit") == "1" && q.parameter("resourceVersion") == "" && q.parameter("continue") == ""
}

func (q *Request) parameter(name string) string {
	query, _ := url.ParseQuery(q.Query) // already checked by fill
	return query.Get(name)
}

// String describes the request for messages: "watch pods in namespace shop from rv 17".
func (q *Request) String() string {
	var b strings.Builder
	b.WriteString(map[bool]string{false: "list ", true: "watch "}[q.Watch()])
	gvr, namespace, _ := collection(q.Path)
	b.WriteString(object.ResourceName(gvr))
	if namespace != "" {
		b.WriteString(" in namespace " + namespace)
	}
	if q.about.Metadata {
		b.WriteString(", metadata only")
	}
	for _, p := range [][2]string{{"labelSelector", ", labels "}, {"fieldSelector", ", fields "}} {
		if value := q.parameter(p[0]); value != "" {
			b.WriteString(p[1] + value)
		}
	}
	if q.parameter(shardSelector) != "" {
		b.WriteString(" with a shardSelector")
	}
	switch rv := q.parameter("resourceVersion"); {
	case q.Watch() && q.initial():
		b.WriteString(", initial state first")
	case q.parameter("continue") != "":
		b.WriteString(", next page")
	case rv != "":
		b.WriteString(" from rv " + rv)
	}
	return b.String()
}

// shape returns the parameters that a request and its recorded counterpart must have in common, except those in without.
func (q *Request) shape(without ...string) string {
	query, _ := url.ParseQuery(q.Query)
	query.Del("timeoutSeconds")
	for _, name := range without {
		query.Del(name)
	}
	return query.Encode()
}

// encode encodes a record's payload. It cannot fail for this package's types.
func encode(value any) []byte {
	text, _ := json.Marshal(value)
	return text
}

// AllWithheld reports whether no response to an informer's requests was recorded because all were withheld.
func AllWithheld(requests []*Request) bool {
	withheld := func(q *Request) bool { return q.Withheld }
	recorded := func(q *Request) bool { return q.Bytes > 0 && !q.Withheld }
	return slices.ContainsFunc(requests, withheld) && !slices.ContainsFunc(requests, recorded)
}
