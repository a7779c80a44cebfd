package rest

import (
	"fmt"
	"html"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"github.com/millrace-dev/millrace/wire"
)

// maxPageStart is the number of bytes to search for a title in a response that is not from an API server.
const maxPageStart = 4 << 10

// notTheAPI returns an error that describes a successful response that cannot come from an API server.
// start is the start of the response body.
func notTheAPI(host string, resp *http.Response, start []byte, conceal func(string) string) error {
	contentType := conceal(resp.Header.Get("Content-Type"))
	return fmt.Errorf("%s answered %s with %s, which is not from the Kubernetes API; is a proxy or a login page in the way?",
		host, conceal(resp.Status), describePage(contentType, foreignText(contentType, start, conceal)))
}

// foreignText returns the body of a response that is not from an API server, without the credentials it
// echoes. It unescapes pages first, because an escaped credential would not be recognized.
func foreignText(contentType string, body []byte, conceal func(string) string) []byte {
	text := conceal(string(body))
	if media, _, _ := mime.ParseMediaType(contentType); media != "text/plain" && media != wire.MediaJSON {
		text = conceal(html.UnescapeString(text))
	}
	return []byte(text)
}

// describePage describes a response that is not from an API server by its title or, if it has none, by its
// start.
func describePage(contentType string, start []byte) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = contentType
	}
	what := "a body without a content type"
	if media != "" {
		what = excerpt(media)
	}
	if title := pageTitle(start); title != "" {
		return fmt.Sprintf("%s titled %q", what, title)
	}
	if text := excerpt(string(start)); text != "" {
		return fmt.Sprintf("%s starting with %q", what, text)
	}
	return what
}

// pageTitle returns the title of an unescaped HTML page, or "".
func pageTitle(page []byte) string {
	page = page[:min(len(page), maxPageStart)]
	match := regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`).FindSubmatch(page)
	if match == nil {
		return ""
	}
	return excerpt(strings.Join(strings.Fields(string(match[1])), " "))
}

// isJSON reports whether a response's content type is JSON.
func isJSON(resp *http.Response) bool {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && media == wire.MediaJSON
}
