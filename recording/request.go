package recording

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Request is a recorded list or watch.
type Request struct {
	Server string // scheme, host, and the part of the path before "/api"
	Path   string // starting with "/api"
	Query  string // the parameters of lists and watches, and no others
	Accept string

	// Informer distinguishes requests of informers with the same subject. It is 0 if
	// the client is unknown.
	Informer uint64 `json:",omitempty"`

	// Withheld means that the request is for Secrets, and that only the sizes of its
	// response are recorded.
	Withheld bool `json:",omitempty"`

	// At is when the request was sent, Answered when the response header arrived, and
	// Ended when the last part arrived, since the beginning of the recording. Answered
	// is zero if there was no response.
	At, Answered, Ended time.Duration `json:"-"`

	Answer Answer `json:"-"`
	Bytes  int64  `json:"-"` // size of the body
	Whole  bool   `json:"-"` // the end was recorded

	id       uint64
	about    about
	blocks   []uint32 // blocks with its records, in order
	answered bool
}

// Answer is the header of a response.
type Answer struct {
	Status      int
	ContentType string `json:",omitempty"`
	RetryAfter  string `json:",omitempty"`

	// Encoding is the Content-Encoding, such as "gzip", unless it was unpacked. Such a body is not
	// recorded, because it cannot be searched for credentials.
	Encoding string `json:",omitempty"`
}

// header is the first record of a file.
type header struct {
	Began   time.Time
	Secrets bool    `json:",omitempty"` // the contents of Secrets were recorded
	LeftOut LeftOut `json:",omitzero"`
}

// LeftOut counts requests that are not in the recording.
type LeftOut struct {
	Requests int   // the oldest requests, because of MaxSize, and requests whose query has 32 KiB or more
	Bytes    int64 // size of their bodies
}

// stop is the last record of a recording that was closed.
type stop struct {
	LeftOut LeftOut `json:",omitzero"`
}

// about is the subject of a request. Several informers may have the same subject; each
// has its own order of requests.
type about struct {
	Server, Path, Labels, Fields string
	Metadata                     bool // only metadata
}

// asked returns the names of the recorded parameters. Any other parameter may be a
// credential.
func asked() []string {
	return []string{"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
		"resourceVersionMatch", "sendInitialEvents", "shardSelector", "timeoutSeconds", "watch"}
}

// read returns the description of a request. ok is false if it is not a list or watch
// of a collection.
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

// fill computes the derived fields. It returns false if the request is not a list or a
// watch.
func (q *Request) fill() bool {
	query, err := url.ParseQuery(q.Query)
	if _, _, ok := collection(q.Path); err != nil || !ok {
		return false
	}
	q.about = about{q.Server, q.Path, query.Get("labelSelector"), query.Get("fieldSelector"), strings.Contains(q.Accept, ";as=PartialObjectMetadata")}
	return true
}

// version matches API versions.
var version = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// collection returns the resource and namespace of the path of a list or watch. ok is
// false for other paths, such as those of an object or its log.
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

// Resource returns the listed or watched resource.
func (q *Request) Resource() object.GVR {
	gvr, _, _ := collection(q.Path)
	return gvr
}

// Namespace returns the namespace of the request, or "" for all.
func (q *Request) Namespace() string {
	_, namespace, _ := collection(q.Path)
	return namespace
}

// Selectors returns the label selector and the field selector.
func (q *Request) Selectors() (labels, fields string) { return q.about.Labels, q.about.Fields }

// MetadataOnly reports whether only metadata was requested.
func (q *Request) MetadataOnly() bool { return q.about.Metadata }

// Watch reports whether the request is a watch, including streaming lists.
func (q *Request) Watch() bool { return q.parameter("watch") == "true" || q.parameter("watch") == "1" }

// initial reports whether the request is for the whole state rather than for changes.
func (q *Request) initial() bool { return !q.Watch() || q.parameter("sendInitialEvents") == "true" }

// probe reports whether the request asks only for the server's current version: a
// consistent list with limit 1.
func (q *Request) probe() bool {
	return !q.Watch() && q.parameter("limit") == "1" && q.parameter("resourceVersion") == "" && q.parameter("continue") == ""
}

func (q *Request) parameter(name string) string {
	query, _ := url.ParseQuery(q.Query) // fill has parsed it before
	return query.Get(name)
}

// String describes the request in messages: "watch pods in namespace shop from rv 17".
func (q *Request) String() string {
	var b strings.Builder
	b.WriteString(map[bool]string{false: "list ", true: "watch "}[q.Watch()])
	gvr, namespace, _ := collection(q.Path)
	b.WriteString(object.ResourceName(gvr))
	if namespace != "" {
		b.WriteString(" in namespace " + namespace)
	}
	if q.about.Metadata {
		b.WriteString(", metadata alone")
	}
	for _, p := range [][2]string{{"labelSelector", ", labels "}, {"fieldSelector", ", fields "}} {
		if value := q.parameter(p[0]); value != "" {
			b.WriteString(p[1] + value)
		}
	}
	switch rv := q.parameter("resourceVersion"); {
	case q.Watch() && q.initial():
		b.WriteString(", with what is there first")
	case q.parameter("continue") != "":
		b.WriteString(", a further page")
	case rv != "":
		b.WriteString(" from rv " + rv)
	}
	return b.String()
}

// shape returns the parameters that must match between a recorded request and another.
func (q *Request) shape() string {
	query, _ := url.ParseQuery(q.Query)
	query.Del("timeoutSeconds")
	return query.Encode()
}

// encode encodes the payload of a record. It cannot fail for the types of this package.
func encode(value any) []byte {
	text, _ := json.Marshal(value)
	return text
}
