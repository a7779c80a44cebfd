package canary

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-dev/millrace/rest/config"
)

// wrongAnswers contain a Secret or a ConfigMap in an answer to another request, or in an invalid
// form. %S and %C stand for their contents, %B for the same in base64, and %G for a large part of
// it.
var wrongAnswers = map[string]string{
	"ConfigMap":              `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"shop","resourceVersion":"7"},"data":{"a":"%C"}}`,
	"ConfigMap as Secret":    `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","namespace":"shop","resourceVersion":"7"},"data":{"a":"%C"}}`,
	"list of ConfigMaps":     `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"%C"}}]}`,
	"list of strings":        `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":["%S"]}`,
	"Table":                  `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"columnDefinitions":[{"name":"%S"}],"rows":[{"cells":["%S"],"object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"%B"}}}]}`,
	"Secret in a Status":     `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","data":{"a":"%B"},"stringData":{"a":"%S"},"details":{"data":{"a":"%S"}}}`,
	"Secret as a Status":     `{"kind":"Status","apiVersion":"v1","status":{"kind":"Secret","data":{"a":"%B"}},"message":{"a":"%S"}}`,
	"Secret for an ERROR":    `{"type":"ERROR","object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"%B"},"stringData":{"a":"%S"}}}`,
	"ERROR that is a text":   `{"type":"ERROR","object":"%S"}`,
	"event of a ConfigMap":   `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"},"data":{"a":"%C"}}}`,
	"event of a table":       `{"type":"ADDED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{"cells":["%S"]}]}}`,
	"type of an event":       `{"type":{"a":"%S"},"object":{}}`,
	"data is a text":         `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":"%S"}`,
	"data is a list":         `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":["%B","%S"]}`,
	"a value is a list":      `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":["%B"]}}`,
	"a value is no base64":   `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"%S"}}`,
	"a time is data":         `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","creationTimestamp":"%S"}}`,
	"a number is data":       `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","generation":"%S"}}`,
	"a truth is data":        `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"immutable":"%S"}`,
	"metadata is data":       `{"kind":"Secret","apiVersion":"v1","metadata":"%S"}`,
	"owner is data":          `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","ownerReferences":"%S"}}`,
	"cut off":                `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"%B`,
	"garbled after the data": `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"%B"},,"type":"%S"}`,
	"garbled in the data":    `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"%S\x"}}`,
	"no JSON":                `%S: %B`,
	"oversize":               `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"},"data":{"a":"%G"}}]}`,
}

// An answer with a Secret in the wrong place, or a broken answer, is not quoted.
func TestAnswersWithASecretInTheWrongPlace(t *testing.T) {
	quoted, err := json.Marshal(canaries["secret"])
	if err != nil {
		t.Fatal(err)
	}
	secret := base64.StdEncoding.EncodeToString([]byte(canaries["secret"]))
	fill := strings.NewReplacer("%S", strings.Trim(string(quoted), `"`), "%C", canaries["config"], "%B", secret, "%G", strings.Repeat(secret+"AAAA", 500_000))
	for name, form := range wrongAnswers {
		t.Run(name, func(t *testing.T) {
			said := newLedger()
			answer := []byte(fill.Replace(form))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(answer) // the client may have gone
			}))
			defer server.Close()
			use(t, said, &config.Config{Host: server.URL, Logger: said.logger()}, name)
			said.requireSilence(t, "error", "status", "failure")
		})
	}
}
