package canary

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// parrots answer requests with parts of the request, each in its own way.
var parrots = map[string]func(w http.ResponseWriter, heard string){
	"Status":             func(w http.ResponseWriter, heard string) { status(w, 403, heard) },
	"Status without end": func(w http.ResponseWriter, heard string) { status(w, 500, strings.Repeat(heard, 100)) },
	"Status of success":  func(w http.ResponseWriter, heard string) { status(w, 200, heard) },
	"Status 401":         func(w http.ResponseWriter, heard string) { status(w, 401, heard) },
	"429": func(w http.ResponseWriter, heard string) {
		w.Header().Set("Retry-After", heard)
		status(w, 429, heard)
	},
	"page":            func(w http.ResponseWriter, heard string) { page(w, 502, "<pre>"+heard) },
	"title":           func(w http.ResponseWriter, heard string) { page(w, 503, "<title>"+heard+"</title>") },
	"long page":       func(w http.ResponseWriter, heard string) { page(w, 404, strings.Repeat("<br>", 20)+heard) },
	"escaped title":   func(w http.ResponseWriter, heard string) { page(w, 200, "<title>"+escaped(heard)+"</title>") },
	"page of success": func(w http.ResponseWriter, heard string) { page(w, 200, "<title>"+heard+"</title>") },
	"text": func(w http.ResponseWriter, heard string) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(500)
		fmt.Fprint(w, heard)
	},
	"content type":     func(w http.ResponseWriter, heard string) { w.Header().Set("Content-Type", heard) },
	"content encoding": func(w http.ResponseWriter, heard string) { w.Header().Set("Content-Encoding", heard) },
	"warning": func(w http.ResponseWriter, heard string) {
		text, _ := json.Marshal(heard)
		w.Header().Set("Warning", "299 - "+string(text))
		status(w, 404, "no")
	},
	"redirect":        func(w http.ResponseWriter, heard string) { location(w, "https://"+host(heard)+".invalid/?"+heard) },
	"redirect within": func(w http.ResponseWriter, heard string) { location(w, "/"+heard) },
	"bad redirect":    func(w http.ResponseWriter, heard string) { location(w, "http://[%zz"+heard) },
	"kind": func(w http.ResponseWriter, heard string) {
		answer(w, `{"kind":%q,"apiVersion":%q,"metadata":{"name":%q}}`, heard)
	},
	"list kind": func(w http.ResponseWriter, heard string) {
		answer(w, `{"kind":%q,"apiVersion":%q,"items":[{"metadata":{"name":%q}}]}`, heard)
	},
	"event type": func(w http.ResponseWriter, heard string) {
		answer(w, `{"type":%q,"object":{"kind":%q,"metadata":{"name":%q}}}`, heard)
	},
	"ERROR event": func(w http.ResponseWriter, heard string) {
		answer(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":%q,"reason":%q,"details":{"name":%q}}}`, heard)
	},
	"garbled answer": func(w http.ResponseWriter, heard string) { raw(w, "HTTP/1.1 200 OK\r\n"+heard+"\r\n\r\n") },
	"no HTTP":        func(w http.ResponseWriter, heard string) { raw(w, heard+"\r\n\r\n") },
	"status line":    func(w http.ResponseWriter, heard string) { raw(w, "HTTP/1.1 2"+heard+" OK\r\n\r\n") },
	"reason phrase": func(w http.ResponseWriter, heard string) {
		raw(w, "HTTP/1.1 502 "+heard+"\r\nContent-Length: 0\r\n\r\n")
	},
	"length": func(w http.ResponseWriter, heard string) {
		raw(w, "HTTP/1.1 200 OK\r\nContent-Length: "+heard+"\r\n\r\n")
	},
	"transfer coding": func(w http.ResponseWriter, heard string) {
		raw(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "+heard+"\r\n\r\n")
	},
	"chunk": func(w http.ResponseWriter, heard string) {
		raw(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+heard+"\r\n")
	},
	"trailer": func(w http.ResponseWriter, heard string) {
		raw(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\n{ \r\n0\r\n"+heard+"\r\n\r\n")
	},
	"nothing": func(w http.ResponseWriter, heard string) { raw(w, "") },
}

// heard returns the credentials in a request, on one line.
func heard(r *http.Request) string {
	if all := r.Header.Get("Proxy-Authorization"); all != "" {
		return all
	}
	return r.Header.Get("Authorization")
}

// escaped escapes a text for HTML in a way that no common library does.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range text {
		fmt.Fprintf(&b, "&#x%04x;", c)
	}
	return b.String()
}

func status(w http.ResponseWriter, code int, heard string) {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Message: heard, Reason: metav1.StatusReason(heard),
		Details: &metav1.StatusDetails{Name: heard, Kind: heard, Causes: []metav1.StatusCause{{Type: metav1.CauseType(heard), Message: heard, Field: heard}}},
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(s) // the client may be gone
}

func page(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprint(w, "<html>"+text)
}

func answer(w http.ResponseWriter, format, heard string) {
	w.Header().Set("Content-Type", "application/json")
	text := strings.NewReplacer("%q", "\x00").Replace(format)
	quoted, _ := json.Marshal(heard)
	fmt.Fprint(w, strings.ReplaceAll(text, "\x00", string(quoted)))
}

func location(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}

// host makes a host name from a text.
func host(text string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, text), "-")
}

// raw answers without regard to the rules of HTTP.
func raw(w http.ResponseWriter, text string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	fmt.Fprint(conn, text)
}
