package apiservertest

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

// requestInfo is the information derived from a request's method and path.
type requestInfo struct {
	verb        string // as in RBAC: get, list, watch, create, update, patch, delete, deletecollection
	group       string
	version     string
	namespace   string
	resource    string // empty for discovery, health checks and so on
	subresource string
	name        string
}

func (i *requestInfo) gvr() object.GVR {
	return object.GVR{Group: i.group, Version: i.version, Resource: i.resource}
}

// parseRequest parses paths of the form /api/VERSION/... and /apis/GROUP/VERSION/... .
func parseRequest(r *http.Request) requestInfo {
	info := requestInfo{verb: strings.ToLower(r.Method)}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		info.version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		info.group, info.version, parts = parts[1], parts[2], parts[3:]
	default:
		return info
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		info.namespace, parts = parts[1], parts[2:]
	}
	info.resource = parts[0]
	if len(parts) > 1 {
		info.name = parts[1]
	}
	if len(parts) > 2 {
		info.subresource = strings.Join(parts[2:], "/")
	}
	info.verb = verbOf(r, info.name)
	return info
}

func verbOf(r *http.Request, name string) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if name == "" {
			return "deletecollection"
		}
		return "delete"
	case http.MethodGet:
		switch {
		case name != "":
			return "get"
		case boolParam(r, "watch"):
			return "watch"
		default:
			return "list"
		}
	}
	return strings.ToLower(r.Method)
}

// boolParam parses a query parameter the way the API server does: any value other than "false" and "0" is
// true.
func boolParam(r *http.Request, name string) bool {
	query := r.URL.Query()
	value := strings.ToLower(query.Get(name))
	return query.Has(name) && value != "false" && value != "0"
}

// negotiate chooses the response format.
func (c *call) negotiate() (format, error) {
	f, err := negotiate(c.r.Header.Get("Accept"), true, c.verb == "list")
	if err != nil {
		return 0, err
	}
	if f == formatProto && c.coll.custom() {
		return c.negotiateCustom()
	}
	return f, nil
}

// acceptClause is one media range of an Accept header.
type acceptClause struct {
	mediaType string
	params    map[string]string
	quality   float64
}

// parseAccept parses an Accept header and sorts its clauses by preference; among equals, wildcards sort
// last. Like a real server, it skips invalid clauses.
func parseAccept(header string) []acceptClause {
	var clauses []acceptClause
	for part := range strings.SplitSeq(header, ",") {
		mediaType, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		clause := acceptClause{mediaType: mediaType, params: params, quality: 1}
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			clause.quality = q
		}
		clauses = append(clauses, clause)
	}
	slices.SortStableFunc(clauses, func(a, b acceptClause) int {
		switch {
		case a.quality > b.quality:
			return -1
		case a.quality < b.quality:
			return 1
		case a.mediaType == b.mediaType:
			return 0
		case a.mediaType == "*/*":
			return 1
		case b.mediaType == "*/*":
			return -1
		}
		return 0
	})
	return clauses
}

// negotiate chooses a format according to an Accept header. If transform is set, metadata-only formats are
// available too, which go by the list kind's name if list is set.
func negotiate(header string, transform, list bool) (format, error) {
	if header == "" {
		return formatJSON, nil
	}
	for _, clause := range parseAccept(header) {
		var f format
		switch clause.mediaType {
		case typeJSON, "*/*":
			f = formatJSON
		case typeProto:
			f = formatProto
		case typeCBOR:
			f = formatCBOR
		default:
			continue
		}
		as := clause.params["as"]
		if as == "" {
			return f, nil
		}
		if !transform || clause.params["g"] != metav1.GroupName || clause.params["v"] != "v1" {
			continue
		}
		want := "PartialObjectMetadata"
		if list {
			want = "PartialObjectMetadataList"
		}
		switch as {
		case want:
			return f - formatJSON + formatMetaJSON, nil
		case "PartialObjectMetadata":
			return 0, notAcceptable("you requested PartialObjectMetadata, but the requested object is a list")
		case "PartialObjectMetadataList":
			return 0, notAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list")
		}
	}
	return 0, notAcceptable("only the following media types are accepted: " + typeJSON + ", " + typeProto + ", " + typeCBOR)
}

// negotiateCustom chooses a format for custom resources that are sent whole.
func (c *call) negotiateCustom() (format, error) {
	for _, clause := range parseAccept(c.r.Header.Get("Accept")) {
		switch clause.mediaType {
		case typeJSON, "*/*":
			return formatJSON, nil
		case typeCBOR:
			return formatCBOR, nil
		}
	}
	return 0, notAcceptable("only the following media types are accepted: " + typeJSON + ", " + typeCBOR)
}
