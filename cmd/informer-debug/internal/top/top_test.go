package top

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/workqueue"
)

// seen is a screen in a bubble with virtual time.
type seen struct {
	t      *testing.T
	screen *shots
	srv    *apiservertest.Server
}

// shots is a screen that keeps its last content.
type shots struct {
	tcell.SimulationScreen
	mu   sync.Mutex
	text string
}

func newScreen(t *testing.T) *shots {
	s := &shots{SimulationScreen: tcell.NewSimulationScreen("UTF-8")}
	require.NoError(t, s.Init())
	s.SetSize(80, 24)
	return s
}

// Show implements tcell.Screen.
func (s *shots) Show() {
	s.SimulationScreen.Show()
	cells, width, height := s.GetContents()
	var lines []string
	for y := range height {
		var b strings.Builder
		for x := range width {
			b.WriteString(string(cells[y*width+x].Runes))
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// look runs top on a process with informers of pods and config maps, a slow handler, and a
// controller that fails for pods named bad, and calls body.
func look(t *testing.T, body func(s *seen)) { lookEvery(t, 0, body) }

// lookEvery is like look with an interval.
func lookEvery(t *testing.T, interval time.Duration, body func(s *seen)) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiservertest.New(apiservertest.Options{})
		defer srv.Close()
		endpoint, err := srv.Pipe()
		require.NoError(t, err)
		client, err := rest.NewClient(&config.Config{Host: endpoint.URL, Dial: endpoint.DialContext}, scheme.New())
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		recorder := flight.New(flight.DefaultSize)
		f := factory.New(client, factory.Options{Flight: recorder})
		pods := factory.Informer[*corev1.Pod](f)
		factory.Informer[*corev1.ConfigMap](f)
		pods.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.Pod](func(_ context.Context, e sharedinformer.Event[*corev1.Pod]) error {
			if e.Object.GetName() == "slow" {
				time.Sleep(time.Hour)
			}
			return nil
		}), sharedinformer.HandlerOptions{Name: "auditor"})
		keeper, err := controller.New("keeper", controller.Func(func(_ context.Context, r controller.Request) (controller.Result, error) {
			if r.Name == "bad" {
				return controller.Result{}, fmt.Errorf("no quota for \x1b[2J%s", r)
			}
			return controller.Result{}, nil
		}), controller.Options{
			Flight: recorder, RateLimiter: workqueue.NewExponential[controller.Request](workqueue.ExponentialOptions{Jitter: -1}),
		})
		require.NoError(t, err)
		keeper.Watch(controller.For(pods))
		for _, name := range []string{"bad", "web-1", "web-2"} {
			pod(t, srv, name)
		}
		ctx, cancel := context.WithCancel(t.Context())
		f.Start(ctx)
		ended := make(chan error, 2)
		go func() { ended <- keeper.Run(ctx) }()
		process := debug.New(debug.Options{
			Program: "shop", Informers: debug.Of(f), Recorder: recorder,
			Controllers: func() []controller.View { return []controller.View{keeper} },
		})
		screen := newScreen(t)
		go func() {
			Run(ctx, screen, process.Client(), Options{Called: "shop", Interval: interval})
			ended <- nil
		}()
		synctest.Wait()
		s := &seen{t, screen, srv}
		s.pass(time.Second)
		body(s)
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
		time.Sleep(2 * time.Hour) // until the handler has returned
		f.Wait()
		screen.Fini()
	})
}

func pod(t *testing.T, srv *apiservertest.Server, name string) {
	t.Helper()
	_, err := srv.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}}})
	require.NoError(t, err)
}

// press presses keys: names such as "Enter", or a letter.
func (s *seen) press(keys ...string) {
	s.t.Helper()
	for _, k := range keys {
		named := map[string]tcell.Key{"Enter": tcell.KeyEnter, "Esc": tcell.KeyEscape, "Tab": tcell.KeyTab, "Down": tcell.KeyDown, "Up": tcell.KeyUp, "PgDn": tcell.KeyPgDn, "Ctrl-C": tcell.KeyCtrlC, "Backspace": tcell.KeyBackspace2}
		if key, ok := named[k]; ok {
			s.screen.InjectKey(key, 0, tcell.ModNone)
		} else {
			s.screen.InjectKey(tcell.KeyRune, []rune(k)[0], tcell.ModNone)
		}
		synctest.Wait()
	}
}

// text returns the text on the screen, without parts that differ from run to run.
func (s *seen) text() string {
	s.screen.mu.Lock()
	defer s.screen.mu.Unlock()
	text := s.screen.text
	text = regexp.MustCompile(`(?m)^shop \(\d+\) up .*$`).ReplaceAllString(text, "shop (1) up 1s ...")
	return regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(text, "12:34:56")
}

var update = flag.Bool("update", false, "write the golden screens anew")

// is compares the screen with the golden one of this name.
func (s *seen) is(name string) {
	s.t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(s.t, os.WriteFile(file, []byte(s.text()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(s.t, err)
	require.Equal(s.t, string(want), s.text(), "%s; go test -update rewrites it", name)
}

// pass lets time pass.
func (s *seen) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Screens are compared as a whole. To update them, run the test with -update and read the diff.
func TestScreens(t *testing.T) {
	for name, body := range map[string]func(s *seen){
		"informers": func(s *seen) {
			for n := range 20 {
				pod(s.t, s.srv, fmt.Sprintf("web-%d", n+3))
			}
			s.pass(time.Second)
		},
		"sorted":      func(s *seen) { s.press("s", "s", "s") },
		"filtered":    func(s *seen) { s.press("/", "P", "o", "d") },
		"none":        func(s *seen) { s.press("/", "x", "Enter") },
		"unfiltered":  func(s *seen) { s.press("/", "x", "Enter", "Esc", "Esc") },
		"help":        func(s *seen) { s.press("?") },
		"behind":      func(s *seen) { pod(s.t, s.srv, "slow"); s.pass(30 * time.Second) },
		"handlers":    func(s *seen) { pod(s.t, s.srv, "slow"); s.pass(30 * time.Second); s.press("Up", "Enter") },
		"handler":     func(s *seen) { pod(s.t, s.srv, "slow"); s.pass(30 * time.Second); s.press("k", "Enter", "Enter") },
		"objects":     func(s *seen) { s.press("Down", "Enter", "2") },
		"key":         func(s *seen) { s.press("Down", "Enter", "Tab", "Enter") },
		"object":      func(s *seen) { s.press("Down", "Enter", "Tab", "Enter", "2") },
		"state":       func(s *seen) { s.press("Down", "Enter", "4") },
		"indexes":     func(s *seen) { s.press("Down", "Enter", "3") },
		"controllers": func(s *seen) { s.press("2"); s.pass(10 * time.Second) },
		"queue":       func(s *seen) { s.pass(10 * time.Second); s.press("2", "Enter") },
		"busiest":     func(s *seen) { s.press("3") },
		"stages":      func(s *seen) { s.press("4") },
		"back":        func(s *seen) { s.press("Down", "Enter", "2", "Enter", "Esc", "Backspace") },
		"paused": func(s *seen) {
			s.press("p")
			pod(s.t, s.srv, "web-3")
			s.pass(time.Minute)
		},
		"resumed": func(s *seen) {
			s.press("p")
			pod(s.t, s.srv, "web-3")
			s.pass(time.Minute)
			s.press("p")
		},
		"down": func(s *seen) { s.srv.Down(); s.pass(20 * time.Second) },
		"small": func(s *seen) {
			s.screen.SetSize(40, 8)
			s.pass(time.Second)
		},
		"large": func(s *seen) {
			s.screen.SetSize(160, 12)
			s.press("2")
			s.pass(3 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			look(t, func(s *seen) {
				body(s)
				s.is(name)
			})
		})
	}
}

// Rates are known even if the interval is longer than a minute.
func TestRatesOfALongInterval(t *testing.T) {
	lookEvery(t, 5*time.Minute, func(s *seen) {
		s.pass(10 * time.Minute)
		require.Regexp(t, `pods +Watching +3 +0 `, s.text())
	})
}

// Text is shown on a screen of any height, even if it becomes too small.
func TestTextOnAnyHeight(t *testing.T) {
	look(t, func(s *seen) {
		s.press("Down", "Enter", "Tab", "Enter")
		require.Contains(t, s.text(), "The controller keeper")
		for height := range frame + 2 {
			s.screen.SetSize(20, height)
			s.pass(time.Second)
			s.press("Down")
		}
	})
}

// Neither a tiny screen nor any key in any view makes top fail.
func TestAnySizeAndAnyKey(t *testing.T) {
	look(t, func(s *seen) {
		keys := []string{"Enter", "Esc", "Tab", "Down", "Up", "PgDn", "Backspace", "s", "r", "g", "G", "?", "/", "1", "5", "9", "p", "j", "k", "x"}
		draw := rand.New(rand.NewPCG(1, 2))
		for range 400 {
			if draw.IntN(10) == 0 {
				s.screen.SetSize(draw.IntN(100), draw.IntN(30))
			}
			s.press(keys[draw.IntN(len(keys))])
			require.NotContains(t, s.text(), "\x1b")
		}
	})
}

// A process that does not answer is reported, and top still handles keys.
func TestAProcessThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		process := debug.New(debug.Options{Program: "shop", Controllers: func() []controller.View { <-hangs; return nil }})
		screen := newScreen(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Run(t.Context(), screen, process.Client(), Options{Called: "shop"})
		}()
		s := &seen{t: t, screen: screen}
		synctest.Wait()
		require.Contains(t, s.text(), "Asking ...")
		s.pass(2 * time.Second)
		require.NotContains(t, s.text(), "no answer")
		s.pass(time.Second)
		require.Contains(t, s.text(), "! There has been no response yet: asked 3s ago")
		s.pass(8 * time.Second)
		require.Contains(t, s.text(), "! There has been no response yet: ")
		require.Contains(t, s.text(), "no response within 10s")
		s.press("?")
		require.Contains(t, s.text(), "open the row")
		close(hangs)
		s.press("?", "2")
		s.pass(2 * time.Second)
		require.Contains(t, s.text(), "CONTROLLER")
		require.NotContains(t, s.text(), "no answer")

		hangs = make(chan struct{}) // again, without a look in between
		s.press("1")
		s.pass(4 * time.Second)
		require.Contains(t, s.text(), "! No response since ")
		require.Contains(t, s.text(), ": asked 4s ago")
		close(hangs)
		s.pass(2 * time.Second)
		require.NotContains(t, s.text(), "answer")
		s.press("q")
		<-ended
		screen.Fini()
	})
}

// If two names differ only beyond the width of the column, the line above the last one shows the
// full name.
func TestRowUnderTheCursorIsShownInFull(t *testing.T) {
	table := table{
		columns: []column{{name: "INFORMER", long: true}, {name: "STATE"}, {name: "TYPE", long: true}},
		rows:    []row{{cells: []cell{word("pods in namespace shop with labels app=web"), word("Watching"), word("*v1.Pod")}}},
	}
	require.Empty(t, table.whole(0, table.widths(100)))
	require.Equal(t, "pods in namespace shop with labels app=web", table.whole(0, table.widths(40)))
}

// A text that differs from others in its end keeps its end.
func TestCutInTheMiddle(t *testing.T) {
	for text, want := range map[string]string{
		"github.com/millrace-dev/millrace/sharedinformer": "githu…sharedinformer",
		"short":        "short",
		"日本語日本語日本語日本語": "日本…語日本語日本語",
	} {
		got := cutMiddle(text, 20)
		require.Equal(t, want, got)
		require.LessOrEqual(t, uniseg.StringWidth(got), 20)
	}
	require.Equal(t, "…", cutMiddle("abc", 1))
}

// A controller without a free worker is marked as in trouble within a minute, and its row shows the
// reason.
func TestAStarvedQueueIsInTrouble(t *testing.T) {
	c := controller.Status{State: controller.Running, Concurrency: 2, Active: 2, Queue: workqueue.Status{Waiting: 19, OldestWaiting: 12 * time.Second, LongestRunning: 13 * time.Second}}
	require.True(t, controllerTrouble(&c))
	require.Equal(t, "19 of its keys are waiting, the oldest for 12s; a worker has been busy with one for 13s", queueAbout(&c.Queue))
	require.True(t, home("x").tabs[1].trouble(&debug.Status{Controllers: []controller.Status{c}}))
	require.False(t, home("x").tabs[0].trouble(&debug.Status{Controllers: []controller.Status{c}}))
	c.Active = 1
	require.False(t, controllerTrouble(&c), "a worker is free")
}
