package monitoring

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

// The series of a database cover two hours and a half. A fault begins after the first hour.
const (
	length   = 150 * time.Minute
	onset    = time.Hour
	interval = 30 * time.Second
)

// target is the labels that Prometheus adds to a scrape.
var target = map[string]string{"job": "janitor", "namespace": "shop", "pod": "janitor-0", "instance": "10.0.0.7:8080"}

// database is the data that Prometheus has of a program: time series that start at the same time.
type database struct {
	begin  time.Time
	series []*figures
}

// figures are a time series.
type figures struct {
	labels labels.Labels
	at     func(since time.Duration) float64
}

// remember makes a database from a scrape: nothing changes for two hours and a half.
func remember(s scrape) *database {
	db := &database{begin: time.Now().Add(-length).Truncate(time.Second)}
	add := func(name string, m *dto.Metric, value float64, more ...string) {
		all := labelsOf(m)
		maps.Copy(all, target)
		all[model.MetricNameLabel] = name
		for n := 0; n < len(more); n += 2 {
			all[more[n]] = more[n+1]
		}
		db.series = append(db.series, &figures{labels.FromMap(all), func(time.Duration) float64 { return value }})
	}
	for name, family := range s {
		for _, m := range family.Metric {
			switch h := m.GetHistogram(); {
			case h != nil:
				for _, b := range h.Bucket {
					if !math.IsInf(b.GetUpperBound(), 1) {
						add(name+"_bucket", m, float64(b.GetCumulativeCount()), "le", fmt.Sprint(b.GetUpperBound()))
					}
				}
				add(name+"_bucket", m, float64(h.GetSampleCount()), "le", "+Inf")
				add(name+"_count", m, float64(h.GetSampleCount()))
				add(name+"_sum", m, h.GetSampleSum())
			case m.Counter != nil:
				add(name, m, m.Counter.GetValue())
			case m.Gauge != nil:
				add(name, m, m.Gauge.GetValue())
			}
		}
	}
	return db
}

// change sets the values of the series that have the labels, by a function of the time since the
// onset. There must be at least one series.
func (db *database) change(t *testing.T, name string, having map[string]string, value func(before float64, since time.Duration) float64) {
	t.Helper()
	changed := 0
	for _, s := range db.series {
		if s.labels.Get(model.MetricNameLabel) != name {
			continue
		}
		fits := true
		for label, value := range having {
			fits = fits && s.labels.Get(label) == value
		}
		if !fits {
			continue
		}
		changed++
		before := s.at
		s.at = func(since time.Duration) float64 {
			if since < onset {
				return before(since)
			}
			return value(before(since), since-onset)
		}
	}
	require.Positive(t, changed, "no program exports %s%v", name, having)
}

// query evaluates an expression every minute from the beginning, or only at the end.
func (db *database) query(t *testing.T, expression string, atTheEnd bool) promql.Matrix {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: patience, Parser: parser.NewParser(parser.Options{})})
	defer engine.Close()
	begin, end := db.begin, db.begin.Add(length)
	if atTheEnd {
		begin = end
	}
	q, err := engine.NewRangeQuery(t.Context(), db, nil, expression, begin, end, time.Minute)
	require.NoError(t, err, expression)
	defer q.Close()
	result := q.Exec(t.Context())
	require.NoError(t, result.Err, expression)
	matrix, err := result.Matrix()
	require.NoError(t, err, expression)
	var kept promql.Matrix // its memory is reused when q is closed
	for _, s := range matrix {
		kept = append(kept, promql.Series{Metric: s.Metric, Floats: slices.Clone(s.Floats)})
	}
	return kept
}

// Querier implements storage.Queryable.
func (db *database) Querier(int64, int64) (storage.Querier, error) { return querier{db}, nil }

type querier struct{ *database }

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{}
	for _, s := range q.series {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
			var samples []chunks.Sample
			for since := time.Duration(0); since <= length; since += interval {
				samples = append(samples, sample{q.begin.Add(since).UnixMilli(), s.at(since)})
			}
			set.all = append(set.all, storage.NewListSeries(s.labels, samples))
		}
	}
	slices.SortFunc(set.all, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return set
}

func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) Close() error { return nil }

// seriesSet iterates over series.
type seriesSet struct {
	all []storage.Series
	now storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.all) == 0 {
		return false
	}
	s.now, s.all = s.all[0], s.all[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.now }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample is a value at a time.
type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.f }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
