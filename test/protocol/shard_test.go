package protocol

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/shard"
)

// selecting returns the parameter that selects some of eight slots.
func selecting(key shard.Key, slots ...int) string {
	return "shardSelector=" + url.QueryEscape(key.Selector(shard.NewSlots(8, slots...)))
}

// sharded creates pods, and returns which of them are in some of eight slots, by UID.
func (s *session) sharded(slots ...int) (in, out []string) {
	s.t.Helper()
	owned := shard.NewSlots(8, slots...)
	for i := range 24 {
		o := s.must("POST", "pods", pod(fmt.Sprintf("p%02d", i)))
		if owned.HasHash(shard.Hash(string(o.Metadata.UID))) {
			in = append(in, o.Metadata.Name)
		} else {
			out = append(out, o.Metadata.Name)
		}
	}
	require.NotEmpty(s.t, in, "24 pods, and none of them in half of the slots")
	require.NotEmpty(s.t, out)
	return in, out
}

// shardInfo returns the selector in the metadata of a list.
func (s *session) shardInfo(path string) string {
	s.t.Helper()
	code, raw := s.do("GET", path, "")
	require.Equal(s.t, 200, code, "%s", raw)
	return parse[struct {
		Metadata struct{ ShardInfo struct{ Selector string } }
	}](s.t, raw).Metadata.ShardInfo.Selector
}

func TestListSelectsSlots(t *testing.T) {
	forEach(t, func(s *session) {
		in, out := s.sharded(1, 2, 5, 7)
		mine, others := selecting(shard.ByUID(), 1, 2, 5, 7), selecting(shard.ByUID(), 0, 3, 4, 6)
		now := s.list("pods").Metadata.ResourceVersion
		for _, query := range []string{"", "resourceVersion=0&", "resourceVersion=" + now + "&", "resourceVersion=" + now + "&resourceVersionMatch=Exact&"} {
			if strings.HasPrefix(query, "resourceVersion=0") {
				s.list("pods?resourceVersion=" + now) // the watch cache has all
			}
			require.Equal(s.t, strings.Join(in, " "), s.list("pods?"+query+mine).names(), query)
			require.Equal(s.t, strings.Join(out, " "), s.list("pods?"+query+others).names(), query)
			require.Equal(s.t, "shardRange(object.metadata.uid, '0x2000000000000000', '0x6000000000000000')"+
				" || shardRange(object.metadata.uid, '0xa000000000000000', '0xc000000000000000')"+
				" || shardRange(object.metadata.uid, '0xe000000000000000', '0x10000000000000000')", s.shardInfo("pods?"+query+mine), query)
		}
		require.Empty(s.t, s.shardInfo("pods"))

		var paged []string
		for token, version := "", ""; ; {
			page := s.list("pods?limit=3&" + mine + "&continue=" + url.QueryEscape(token))
			version = cmp.Or(version, page.Metadata.ResourceVersion) // a server may write on its own
			require.Equal(s.t, version, page.Metadata.ResourceVersion)
			paged = append(paged, page.names())
			if token = page.Metadata.Continue; token == "" {
				break
			}
		}
		require.Equal(s.t, strings.Join(in, " "), strings.TrimSpace(strings.Join(paged, " ")))

		require.Empty(s.t, s.list("pods?"+selecting(shard.ByUID())).names(), "of no slots")
		first := in[0]
		require.Equal(s.t, first, s.list("pods?labelSelector=app%3D"+first+"&"+mine).names(), "beside another selector")
		require.Empty(s.t, s.list("pods?labelSelector=app%3D"+first+"&"+others).names())

		own := shard.SlotOf(shard.Hash(s.ns), 8)
		require.Len(s.t, s.list("pods?"+selecting(shard.ByNamespace(), own)).Items, 24)
		require.Empty(s.t, s.list("pods?"+selecting(shard.ByNamespace(), (own+1)%8)).Items)
	})
}

// A watch resumes from any version with any selector. Bookmarks arrive with all of them.
func TestWatchSelectsSlots(t *testing.T) {
	forEach(t, func(s *session) {
		in, out := s.sharded(1, 2, 5, 7)
		then := s.list("pods").Metadata.ResourceVersion
		last := ""
		for _, name := range append(slices.Clone(out), in...) {
			last = s.merge("pods/"+name, `{"metadata":{"labels":{"seen":"yes"}}}`).Metadata.ResourceVersion
		}
		s.must("DELETE", "pods/"+out[0]+"?gracePeriodSeconds=0", "")
		s.must("DELETE", "pods/"+in[0]+"?gracePeriodSeconds=0", "")
		told := func(names []string) string {
			var all []string
			for _, name := range names {
				all = append(all, "MODIFIED "+name)
			}
			return strings.Join(append(all, "MODIFIED "+names[0], "DELETED "+names[0]), ", ")
		}
		for names, slots := range map[*[]string][]int{&in: {1, 2, 5, 7}, &out: {0, 3, 4, 6}} {
			w := s.watch("pods?watch=true&resourceVersion=" + then + "&" + selecting(shard.ByUID(), slots...))
			require.Equal(s.t, told(*names), w.told(len(*names)+2))
		}

		w := s.watch("pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&" + selecting(shard.ByUID(), 1, 2, 5, 7))
		for _, name := range in[1:] {
			require.Equal(s.t, "ADDED "+name, w.told(1))
		}
		end := w.next()
		require.Equal(s.t, "BOOKMARK", end.Type)
		require.Greater(s.t, end.Object.Metadata.ResourceVersion, last)
	})
}

// An invalid selector is refused with an internal error.
func TestNoSelectorOfSlots(t *testing.T) {
	forEach(t, func(s *session) {
		const half = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
		for _, text := range []string{
			" ", "nonsense", half + " && " + half, strings.Replace(half, "uid", "name", 1), half + "||" + strings.Replace(half, "uid", "namespace", 1),
			strings.Replace(half, "0x0000000000000000", "0x0", 1), strings.Replace(half, "0x8", "0x0", 1), strings.Replace(half, "0x0000000000000000", "0x000000000000000A", 1),
		} {
			for _, watch := range []string{"", "watch=true&"} {
				code, raw := s.do("GET", "pods?"+watch+"shardSelector="+url.QueryEscape(text), "")
				require.Equal(s.t, 500, code, "%s: %s", text, raw)
				status := parse[item](s.t, raw)
				require.Empty(s.t, status.Reason)
				require.Contains(s.t, status.Message, "invalid shard selector: ")
			}
		}
		require.Equal(s.t, 200, func() int { code, _ := s.do("GET", "pods?shardSelector=", ""); return code }())

		// The largest number of ranges that a client sends.
		var odd []int
		for slot := 1; slot < 1024; slot += 2 {
			odd = append(odd, slot)
		}
		long := shard.ByUID().Selector(shard.NewSlots(1024, odd...))
		require.Equal(s.t, 512, strings.Count(long, "shardRange"))
		require.Equal(s.t, 512, strings.Count(s.shardInfo("pods?shardSelector="+url.QueryEscape(long)), "shardRange"))
	})
}

// The field is in the metadata of lists in every encoding.
func TestShardInfoInEveryEncoding(t *testing.T) {
	forEach(t, func(s *session) {
		s.pods("a")
		query := "pods?" + selecting(shard.ByUID(), 0, 1, 2)
		for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf", "application/cbor"} {
			code, raw := s.do("GET", query, "", "Accept", media)
			require.Equal(s.t, 200, code)
			require.Contains(s.t, string(raw), "shardRange(object.metadata.uid, '0x0000000000000000', '0x6000000000000000')", media)
			require.Equal(s.t, media == "application/json", json.Valid(raw))
		}
	})
}
