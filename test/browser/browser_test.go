// Package browser tests the page of package debug in headless Chromium.
package browser

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/sharedinformer"
)

var pictures = flag.Duration("pictures", 0, "let the program run for that long, and then draw docs/page-light.png and docs/page-dark.png")

// patience is how long a test waits for a change of the page.
const patience = 30 * time.Second

// tab is a tab in its own browser.
type tab struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	requests []string // addresses
	said     []string // warnings, errors and exceptions in the console
}

// look is how a user views a page.
type look struct {
	scheme        string // "light" or "dark"
	width, height int64
}

func (l look) String() string {
	return l.scheme + " " + map[int64]string{800: "small", 1440: "large"}[l.width]
}

// open starts a browser, which is closed when the test ends.
func open(t testing.TB, l look) *tab {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("no chromium in PATH: apt-get install chromium")
		}
		require.NoError(t, err, "apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox does not work for root
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	p := &tab{TB: t}
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.requests = append(p.requests, e.Request.URL)
		}
	}))
	t.Cleanup(func() {
		cancel()
		if err := chromedp.WaitClosed(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Log("the browser did not end well: ", err)
		}
	})
	p.ctx = ctx
	messages := chromedp.Console(ctx)
	go func() { // ends with the browser
		for m, err := range messages {
			if err != nil {
				return
			}
			p.mu.Lock()
			if m.Type != chromedp.ConsoleLog && m.Type != "info" && m.Type != "debug" {
				p.said = append(p.said, m.String())
			}
			p.mu.Unlock()
		}
	}()
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}}})
	require.NoError(t, err)
	p.do(chromedp.EmulateViewport(l.width, l.height))
	return p
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	require.NoError(p, chromedp.Do(p.ctx, steps...))
}

func (p *tab) press(keys ...string) {
	p.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// filter types "/" with real key events: chromedp.KeyEvent would send the character even if the
// page has prevented it.
func (p *tab) filter() {
	p.Helper()
	for _, typ := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		event := input.DispatchKeyEventParams{Type: typ, Key: "/"}
		if typ == input.DispatchKeyEventTypeKeyDown {
			event.Text = "/"
		}
		_, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, event)
		require.NoError(p, err)
	}
}

// text returns the result of a script.
func (p *tab) text(script string) string {
	p.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](script))
	require.NoError(p, err, script)
	return text
}

// until waits until a script returns true.
func (p *tab) until(script string) {
	p.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Poll[bool]("!!("+script+")", chromedp.WithPollingTimeout(patience)))
	require.NoError(p, err, "%s: %s shows\n%s\nand the console\n%s", script, p.text("location.hash"), p.text("document.body.innerText"), strings.Join(p.heard(), "\n"))
}

// heard returns the messages of the console.
func (p *tab) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.said...)
}

// blameless checks that the console is empty, and that only the server received requests.
func (p *tab) blameless(address string) {
	p.Helper()
	require.Empty(p, p.heard())
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NotEmpty(p, p.requests)
	for _, r := range p.requests {
		require.True(p, strings.HasPrefix(r, address+debug.Path), r)
	}
}

// walk moves the focus down to the link with the given text, and checks that the link is visible.
func (p *tab) walk(text string) {
	p.Helper()
	for range 40 {
		p.press(kb.ArrowDown)
		if p.text("document.activeElement.textContent") == text {
			require.NotEqual(p, "none", p.text("getComputedStyle(document.activeElement).outlineStyle"))
			require.Equal(p, "inside", p.text(`(() => { const r = document.activeElement.getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth ? 'inside' : JSON.stringify(r) })()`))
			return
		}
	}
	require.Fail(p, "the keyboard does not lead to it", "%s in\n%s", text, p.text("document.body.innerText"))
}

func TestTheKeyboardLeadsFromTheProcessToAKey(t *testing.T) {
	program := start(t, hostile)
	server := httptest.NewServer(program)
	t.Cleanup(server.Close)
	for _, l := range []look{{"light", 1440, 900}, {"dark", 1440, 900}, {"light", 800, 600}, {"dark", 800, 600}} {
		t.Run(l.String(), func(t *testing.T) {
			p := open(t, l)
			p.do(chromedp.Navigate(server.URL + debug.Path))
			p.until(`document.querySelectorAll('.pipeline').length === 3 && document.querySelector('.chart path').getAttribute('d') !== ''`)
			status, err := program.Client().Status(t.Context())
			require.NoError(t, err)
			p.compare(status)
			p.fits()
			background := p.text("getComputedStyle(document.body).backgroundColor")
			require.Equal(t, map[string]string{"light": "rgb(246, 247, 248)", "dark": "rgb(20, 24, 27)"}[l.scheme], background)

			p.walk("pods")
			p.press(kb.Enter)
			p.until(`document.querySelector('h1')?.textContent === 'pods' && document.querySelectorAll('[aria-label="Objects"] tbody tr').length === 50`)
			require.Contains(t, p.text("document.querySelector('[aria-label=\"Indexes\"]').innerText"), "node")
			p.fits()
			p.filter()
			p.press("s", "h", "o", "p", kb.Tab, kb.Tab, "b", "a", "d", kb.Enter)
			p.until(`document.querySelectorAll('[aria-label="Objects"] tbody tr').length === 1`)
			p.walk("bad")
			p.press(kb.Enter)
			p.until(`document.querySelector('h1')?.textContent === 'shop/bad' && document.querySelector('.timeline .event') && document.querySelector('pre')`)
			why, err := program.Client().Why(t.Context(), "pods", "", keyOf("shop", "bad"))
			require.NoError(t, err)
			require.Equal(t, string(why.Reasons[0].Cause), p.text("document.querySelector('.cause').textContent"))
			require.Contains(t, p.text("document.querySelector('pre').textContent"), `"schedulerName"`)
			require.Contains(t, p.text("document.querySelector('pre').textContent"), "<script>")
			p.fits()
			p.press("?")
			p.until("document.getElementById('help').open")
			p.press(kb.Escape)
			p.until("!document.getElementById('help').open")
			p.press(kb.Escape)
			p.until("document.querySelector('h1')?.textContent === 'pods'")
			p.press(kb.Escape)
			p.until("document.querySelectorAll('.pipeline').length === 3")
			for n, tab := range []string{"overview", "events", "busiest", "memory"} {
				p.press(string(rune('1' + n)))
				p.until("location.hash === '#" + tab + "' && document.querySelector('[aria-current]').hash === '#" + tab + "'")
				p.fits()
			}
			p.until(`document.querySelector('[aria-label="Goroutines"]')`)
			require.NotContains(t, p.text("document.title"), "broken into")
			p.blameless(server.URL)
		})
	}
}

// compare compares the page with the status of the process.
func (p *tab) compare(status *debug.Status) {
	p.Helper()
	require.Contains(p, p.text("document.getElementById('process').innerText"), status.Process.Program)
	require.Contains(p, p.text("document.title"), status.Process.Program)
	for _, i := range status.Informers {
		name := i.Reflector.Resource
		shown := p.text(`document.querySelector('.pipeline[aria-label="Pipeline of ` + name + `"]').innerText`)
		require.Contains(p, shown, i.Reflector.State.String(), name)
		require.Contains(p, shown, strings.TrimPrefix(i.Type, "*v1."), name)
		require.Regexp(p, `\b`+itoa(i.Objects)+` objects`, shown, name)
		require.Equal(p, !i.Synced, strings.Contains(shown, "not synced"), name)
	}
	require.Equal(p, "secrets", p.text("document.querySelector('.pipeline h3').textContent"), "what fails comes first")
	shown := p.text("document.querySelector('.pipeline .causes').textContent")
	require.Contains(p, shown, "forbidden")
	require.Contains(p, shown, "<script>", "as text")
	require.Equal(p, "0", p.text("String(document.querySelectorAll('main img, main script, main style').length)"))
	for _, c := range status.Controllers {
		require.Contains(p, p.text(`document.querySelector('[aria-label="Controllers"]').innerText`), c.Name)
	}
	p.until(`document.querySelector('[aria-label="Controllers"]').innerText.includes('shop/stuck for ')`)
	p.until(`/now \d/.test(document.querySelector('[data-key="work"] figcaption').innerText)`) // a call in progress gives no sample
}

// fits checks that no element is wider than the window.
func (p *tab) fits() {
	p.Helper()
	require.Equal(p, "fits", p.text("document.documentElement.scrollWidth <= innerWidth ? 'fits' : `${document.documentElement.scrollWidth} > ${innerWidth}`"))
}

// If the process goes away, the page says so and shows the age of its data. When the process is
// back, the page continues.
func TestTheProcessGoesAwayAndComesBack(t *testing.T) {
	program := start(t, hostile)
	server := httptest.NewServer(program)
	defer func() { server.Close() }()
	p := open(t, look{"light", 800, 600})
	p.do(chromedp.Navigate(server.URL + debug.Path + "#informer?informer=pods&cluster="))
	p.until("document.querySelector('#connection .good') && document.querySelector('h1')")
	server.CloseClientConnections()
	at := server.Listener.Addr().String()
	server.Close()
	p.until(`/does not respond.*Showing data from \d\d:\d\d:\d\d, the last successful response/.test(document.querySelector('#connection.lost')?.textContent)`)
	require.Equal(t, "pods", p.text("document.querySelector('h1').textContent"), "it still shows what it knew")
	listener, err := net.Listen("tcp", at)
	require.NoError(t, err)
	server = httptest.NewUnstartedServer(program)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	p.until("document.querySelector('#connection .good') && !document.querySelector('#connection.lost')")
}

// Two handlers added at the same source line stay two when the page is redrawn.
func TestTwoProcessesOfOneName(t *testing.T) {
	program := start(t, hostile)
	for range 2 {
		program.pods.AddHandlerWith(sharedinformer.HandlerFunc[*corev1.Pod](func(context.Context, sharedinformer.Event[*corev1.Pod]) error { return nil }),
			sharedinformer.HandlerOptions{Name: "twin"})
	}
	server := httptest.NewServer(program)
	t.Cleanup(server.Close)
	p := open(t, look{"light", 800, 600})
	p.do(chromedp.Navigate(server.URL + debug.Path + "#informer?informer=pods&cluster="))
	drawn := "[...document.querySelectorAll('[aria-label=Handlers] tbody tr')].filter(r => r.textContent.startsWith('twin')).length === 2 && document.getElementById('connection').textContent"
	p.until(drawn)
	first := p.text(drawn)
	p.until("document.getElementById('connection').textContent !== '" + first + "'")
	p.until(drawn + " !== '" + first + "'")
	p.blameless(server.URL)
}

// twins is a process that has the same informer twice.
type twins struct {
	of *sharedinformer.Informer[*corev1.Pod]
}

func (t twins) Status() []sharedinformer.Status {
	s := t.of.Status()
	return []sharedinformer.Status{s, s}
}

func (t twins) Views() []sharedinformer.View {
	return []sharedinformer.View{t.of.View(), t.of.View()}
}

// The page finds what doctor finds: two informers for the same objects, reported once.
func TestTwoInformersOfTheSame(t *testing.T) {
	program := start(t, "")
	server := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(twins{program.pods})}))
	t.Cleanup(server.Close)
	p := open(t, look{"light", 800, 600})
	p.do(chromedp.Navigate(server.URL + debug.Path))
	p.until("document.querySelector('.health h2')?.textContent === '1 of 2 needs a look'")
	require.Contains(t, p.text("document.querySelector('.health .causes').textContent"), "2 informers cache the same objects: share one")
	p.blameless(server.URL)
}

func TestEventsAreFollowed(t *testing.T) {
	program := start(t, hostile)
	server := httptest.NewServer(program)
	t.Cleanup(server.Close)
	p := open(t, look{"dark", 800, 600})
	p.do(chromedp.Navigate(server.URL + debug.Path + "#events?informer=pods&text=fresh"))
	p.until("document.querySelector('[aria-pressed=false]') && performance.getEntriesByType('resource').some(r => r.name.includes('/v1/status'))")
	rows := "document.querySelectorAll('[aria-label=Events] tbody tr').length"
	written := 0
	write := func() {
		written++
		program.put(t, "fresh-"+itoa(written), 0)
		program.put(t, "other-"+itoa(written), 0)
	}
	require.Eventually(t, func() bool { // the stream may not be open yet
		write()
		return p.text("String("+rows+")") != "0"
	}, patience, 100*time.Millisecond)
	require.NotContains(t, p.text("document.querySelector('[aria-label=Events]').innerText"), "other-")
	p.press("p")
	p.until("document.querySelector('[aria-pressed=true]')")
	shown := p.text("String(" + rows + ")")
	write()
	p.until(`/Paused; [1-9]\d* have happened since/.test(document.querySelector('main [role=status]').textContent)`)
	require.Equal(t, shown, p.text("String("+rows+")"))
	p.press("p")
	write()
	p.until(rows + " > " + shown)
	p.blameless(server.URL)
}

// TestPictures draws the pictures of docs/debugging.md, if requested.
func TestPictures(t *testing.T) {
	if *pictures == 0 {
		t.Skip("no pictures are asked for: -pictures 2m draws them")
	}
	program := start(t, "")
	server := &http.Server{Handler: program}
	listener, err := net.Listen("tcp", "127.0.0.1:6060")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	tabs := map[string]*tab{}
	for _, scheme := range []string{"light", "dark"} {
		tabs[scheme] = open(t, look{scheme, 1200, 860})
		tabs[scheme].do(chromedp.Navigate("http://127.0.0.1:6060" + debug.Path))
	}
	end := time.After(*pictures)
	for n := 0; ; n++ {
		select {
		case <-end:
			for scheme, p := range tabs {
				picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
				require.NoError(t, err)
				require.NoError(t, os.WriteFile("../../docs/page-"+scheme+".png", picture, 0o644))
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
		for k := range n / 40 % 5 * (n % 3) {
			program.put(t, "web-"+itoa(k), n)
		}
	}
}
