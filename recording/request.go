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

// Request is a list or a watch as it was asked for, and what came of it.
type Request struct {
	Server string // scheme, host, and what its paths begin with before "/api"
	Path   string // from "/api" on
	Query  string // the parameters of lists and watches, and no others
	Accept string

	// Informer tells the requests of one informer from those of another that asks for the
	// same. It is 0 where it is unknown who asks.
	Informer uint64 `json:",omitempty"`

	// Withheld: it is of Secrets, and the recording has the sizes of what came alone.
	Withheld bool `json:",omitempty"`

	// At is when it was sent, Answered when the head of the answer came, and Ended when the
	// last of it came, since the recording began. Answered is zero where no answer came.
	At, Answered, Ended time.Duration `json:"-"`

	Answer Answer `json:"-"`
	Bytes  int64  `json:"-"` // of the body
	Whole  bool   `json:"-"` // how it ended is known

	id       uint64
	about    about
	blocks   []uint32 // that have records of it, in order
	answered bool
}

// Answer is the head of an answer.
type Answer struct {
	Status      int
	ContentType string `json:",omitempty"`
	RetryAfter  string `json:",omitempty"`

	// Encoding is the Content-Encoding, such as "gzip", where nobody has undone it. The body
	// is not recorded then: a credential in it could not be found.
	Encoding string `json:",omitempty"`
}

// header is what a file says of itself.
type header struct {
	Began   time.Time
	Secrets bool    `json:",omitempty"` // they were recorded too
	LeftOut LeftOut `json:",omitzero"`
}

// LeftOut counts what a recording did not keep.
type LeftOut struct {
	Requests int   // the oldest ones, for MaxSize, and those whose query alone has 32 KiB
	Bytes    int64 // of their bodies
}

// stop is the last record of a recording that was closed.
type stop struct {
	LeftOut LeftOut `json:",omitzero"`
}

// about is what a request is about. Informers may be about the same; the order of the
// requests of one is its own.
type about struct {
	Server, Path, Labels, Fields string
	Metadata                     bool // of the objects alone
}

// asked are the parameters of a list or a watch that are written down. Whatever else
// stands in a query may be a credential.
func asked() []string {
	return []string{"allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
		"resourceVersionMatch", "sendInitialEvents", "shardSelector", "timeoutSeconds", "watch"}
}

// read returns what a request asks for. It is not ok if that is no list or watch of a
// collection.
func read(req *http.Request) (q Request, ok bool) {
	if req.Method != http.MethodGet || req.URL == nil {
		return q, false
	}
	path, before := req.URL.Path, "" // as the server understands it, however it is written
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

// fill derives what is not written. It reports whether the request is a list or a watch.
func (q *Request) fill() bool {
	query, err := url.ParseQuery(q.Query)
	if _, _, ok := collection(q.Path); err != nil || !ok {
		return false
	}
	q.about = about{q.Server, q.Path, query.Get("labelSelector"), query.Get("fieldSelector"), strings.Contains(q.Accept, ";as=PartialObjectMetadata")}
	return true
}

// version is how versions of the API are named.
var version = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// collection returns which resource a path lists and watches, and in which namespace. It
// is not ok if the path is of something else, such as of one object or of its log.
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

// Resource is what is listed or watched.
func (q *Request) Resource() object.GVR {
	gvr, _, _ := collection(q.Path)
	return gvr
}

// Namespace is where, empty for everywhere.
func (q *Request) Namespace() string {
	_, namespace, _ := collection(q.Path)
	return namespace
}

// Selectors are the label selector and the field selector of the objects.
func (q *Request) Selectors() (labels, fields string) { return q.about.Labels, q.about.Fields }

// MetadataOnly reports whether the metadata of the objects was asked for, and not the rest.
func (q *Request) MetadataOnly() bool { return q.about.Metadata }

// Watch reports whether it is a watch, a streaming list included.
func (q *Request) Watch() bool { return q.parameter("watch") == "true" || q.parameter("watch") == "1" }

// initial reports whether it is for the whole state and not for changes since.
func (q *Request) initial() bool { return !q.Watch() || q.parameter("sendInitialEvents") == "true" }

// probe reports whether it is for where the server is: a consistent list of one object.
func (q *Request) probe() bool {
	return !q.Watch() && q.parameter("limit") == "1" && q.parameter("resourceVersion") == "" && q.parameter("continue") == ""
}

func (q *Request) parameter(name string) string {
	query, _ := url.ParseQuery(q.Query) // which fill has read
	return query.Get(name)
}

// String is what it asks for, for messages: "watch pods in namespace shop from rv 17".
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

// shape is what must be the same for one request to be the other.
func (q *Request) shape() string {
	query, _ := url.ParseQuery(q.Query)
	query.Del("timeoutSeconds")
	return query.Encode()
}

// encode writes what a record holds. It does not fail for the types of this package.
func encode(value any) []byte {
	text, _ := json.Marshal(value)
	return text
}
