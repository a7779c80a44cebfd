package monitoring

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape is a program's answer to Prometheus, by metric name.
type scrape map[string]*dto.MetricFamily

// ask scrapes a program by its handler.
func ask(h http.Handler) (scrape, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("/metrics answers %d: %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(bytes.NewReader(w.Body.Bytes()))
}

// has reports whether there is a series with a value above zero that has the labels.
func (s scrape) has(name string, labels map[string]string) bool {
	family := s[name]
	if family == nil {
		return false
	}
	return slices.ContainsFunc(family.Metric, func(m *dto.Metric) bool {
		value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		if value <= 0 {
			return false
		}
		found := labelsOf(m)
		for label, value := range labels {
			if found[label] != value {
				return false
			}
		}
		return true
	})
}

func labelsOf(m *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, l := range m.Label {
		all[l.GetName()] = l.GetValue()
	}
	return all
}

// shape is a metric without its values.
type shape struct {
	Type, Labels, Buckets string
}

func (s scrape) shape(name string) shape {
	family := s[name]
	labels, buckets := map[string]bool{}, ""
	for _, m := range family.Metric {
		for label := range labelsOf(m) {
			labels[label] = true
		}
		buckets = ""
		for _, b := range m.GetHistogram().GetBucket() {
			buckets += fmt.Sprint(b.GetUpperBound(), " ")
		}
	}
	return shape{
		Type:   strings.ToLower(family.GetType().String()),
		Labels: strings.Join(slices.Sorted(maps.Keys(labels)), ", "), Buckets: buckets,
	}
}
