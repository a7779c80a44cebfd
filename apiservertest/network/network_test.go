package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"
)

func TestPipeIsAConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, c2 = Pipe()
		return c1, c2, func() { c1.Close(); c2.Close() }, nil
	})
}

func TestASlowLinkIsAConn(t *testing.T) {
	link := New(1).Link("a")
	link.Set(Conditions{Latency: 100 * time.Microsecond, Jitter: time.Millisecond})
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, c2, err = link.connect(t.Context())
		return c1, c2, func() { c1.Close(); c2.Close() }, err
	})
	require.Zero(t, link.Open())
}

// rig is a link in a bubble.
type rig struct {
	*testing.T
	*Link
}

func inBubble(t *testing.T, c Conditions, body func(r rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		link := New(7).Link("a")
		link.Set(c)
		body(rig{t, link})
	})
}

// dial creates a connection that is closed at the end of the test.
func (r rig) dial() (client, server net.Conn) {
	r.Helper()
	dial := r.Dialer(func(_ context.Context, c net.Conn) error { server = c; return nil })
	client, err := dial(r.Context(), "tcp", "any")
	require.NoError(r, err)
	r.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// arrivals reads to the end and returns the data with arrival times.
func arrivals(c net.Conn) (heard []string) {
	start := time.Now()
	buffer := make([]byte, 1<<20)
	for {
		n, err := c.Read(buffer)
		at := time.Since(start).Round(time.Millisecond)
		if n > 0 {
			text := string(buffer[:n])
			if n > 20 {
				text = fmt.Sprint(n)
			}
			heard = append(heard, fmt.Sprint(text, " ", at))
			continue
		}
		heard = append(heard, fmt.Sprint(cause(err), " ", at))
		return heard
	}
}

func cause(err error) string {
	for _, known := range []error{io.EOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNREFUSED, os.ErrDeadlineExceeded, net.ErrClosed, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint(err)
}

func write(t testing.TB, c net.Conn, text string) {
	t.Helper()
	n, err := io.WriteString(c, text)
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

func TestLatency(t *testing.T) {
	inBubble(t, Conditions{Latency: 20 * time.Millisecond}, func(r rig) {
		start := time.Now()
		client, server := r.dial()
		require.Equal(t, 40*time.Millisecond, time.Since(start).Round(time.Millisecond), "there and back")
		write(t, client, "a")
		time.Sleep(10 * time.Millisecond)
		write(t, client, "b")
		client.Close()
		require.Equal(t, []string{"a 10ms", "b 20ms", "EOF 20ms"}, arrivals(server))
	})
}

func TestWritesDoNotWaitUntilTheWindowIsFull(t *testing.T) {
	inBubble(t, Conditions{}, func(r rig) {
		client, server := r.dial()
		require.NoError(t, client.SetWriteDeadline(time.Now().Add(time.Second)))
		n, err := client.Write(make([]byte, 100_000))
		require.Equal(t, window, n)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, client.SetWriteDeadline(time.Time{}))
		go func() {
			_, _ = client.Write(make([]byte, 200_000))
			client.Close()
		}()
		all, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Len(t, all, window+200_000)
	})
}

func TestBandwidth(t *testing.T) {
	inBubble(t, Conditions{Bandwidth: 1000, Segment: 500}, func(r rig) {
		client, server := r.dial()
		write(t, client, strings.Repeat("x", 1200))
		write(t, client, "yz") // a separate segment
		client.Close()
		require.Equal(t, []string{"500 500ms", "500 1s", "200 1.5s", "yz 2s", "EOF 2s"}, arrivals(server))
	})
	inBubble(t, Conditions{Bandwidth: 100, Segment: 1}, func(r rig) {
		client, server := r.dial()
		write(t, client, "abc")
		client.Close()
		require.Equal(t, []string{"a 10ms", "b 20ms", "c 30ms", "EOF 30ms"}, arrivals(server), "it trickles")
	})
	inBubble(t, Conditions{Bandwidth: 1 << 30}, func(r rig) {
		client, server := r.dial()
		write(t, client, strings.Repeat("x", 50_000))
		client.Close()
		require.Equal(t, []string{"50000 0s", "EOF 0s"}, arrivals(server))
	})
}

// Loss delays bytes but never drops or reorders them.
func TestLoss(t *testing.T) {
	inBubble(t, Conditions{Latency: time.Millisecond, Loss: 0.2, Segment: 10}, func(r rig) {
		client, server := r.dial()
		var sent strings.Builder
		for n := range 100 {
			fmt.Fprintf(&sent, "%09d ", n)
		}
		write(t, client, sent.String())
		client.Close()
		start := time.Now()
		got, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Equal(t, sent.String(), string(got))
		require.Greater(t, time.Since(start), resend)
	})
}

func TestPartition(t *testing.T) {
	inBubble(t, Conditions{Latency: 10 * time.Millisecond}, func(r rig) {
		client, server := r.dial()
		write(t, client, "a")
		time.Sleep(15 * time.Millisecond)
		write(t, client, "b")
		r.Set(Conditions{Latency: 10 * time.Millisecond, Partition: true})
		write(t, client, "c")
		write(t, server, "d")
		require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		_, err = r.Dialer(nil)(ctx, "tcp", "any")
		require.Equal(t, context.DeadlineExceeded.Error(), cause(err))
		client.Close() // the other end does not notice
		time.AfterFunc(time.Minute, func() { r.Set(Conditions{Latency: 10 * time.Millisecond}) })
		require.Equal(t, []string{"a 0s", "bc 1m0.01s", "EOF 1m0.01s"}, arrivals(server))
		_, err = server.Write([]byte("e"))
		require.ErrorIs(t, err, syscall.EPIPE)
	})
}

// Bytes that will never be read do not block forever once the partition is over.
func TestPartitionFillsTheWindow(t *testing.T) {
	inBubble(t, Conditions{}, func(r rig) {
		client, server := r.dial()
		r.Set(Conditions{Partition: true})
		client.Close()
		start := time.Now()
		time.AfterFunc(time.Minute, func() { r.Set(Conditions{Latency: time.Second}) })
		_, err := server.Write(make([]byte, 10*window))
		require.Equal(t, 61*time.Second, time.Since(start).Round(time.Millisecond))
		require.ErrorIs(t, err, syscall.EPIPE)
	})
}

func TestCut(t *testing.T) {
	inBubble(t, Conditions{Latency: time.Second}, func(r rig) {
		client, server := r.dial()
		write(t, client, "a")
		time.Sleep(1500 * time.Millisecond)
		write(t, client, "b")
		require.Equal(t, 1, r.Cut())
		require.Equal(t, []string{"a 0s", "connection reset by peer 0s"}, arrivals(server))
		require.Equal(t, []string{"connection reset by peer 0s"}, arrivals(client))
		_, err := client.Write([]byte("c"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, 1, r.Open())
		client.Close()
		server.Close()
		require.Zero(t, r.Open())
	})
}

func TestCutWakesTheBlocked(t *testing.T) {
	inBubble(t, Conditions{}, func(r rig) {
		_, server := r.dial()
		time.AfterFunc(time.Second, func() { r.Cut() })
		ended := make(chan error)
		go func() { _, err := server.Read(make([]byte, 1)); ended <- err }()
		_, err := server.Write(make([]byte, 10*window))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.ErrorIs(t, <-ended, syscall.ECONNRESET)
	})
}

func TestVanish(t *testing.T) {
	inBubble(t, Conditions{Latency: time.Second}, func(r rig) {
		client, server := r.dial()
		write(t, client, "a")
		require.Equal(t, 1, r.Vanish())
		write(t, client, "b")
		write(t, server, "c")
		client.Close()
		require.Zero(t, len(r.open)-1, "the server has not heard of it")
		require.NoError(t, server.SetDeadline(time.Now().Add(time.Hour)))
		require.Equal(t, []string{"i/o timeout 1h0m0s"}, arrivals(server))
		r.Cut()
		r.Set(Conditions{})
		require.NoError(t, server.SetDeadline(time.Now().Add(time.Hour)))
		n, err := server.Write(make([]byte, 2*window))
		require.Equal(t, window-1, n)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		client2, server2 := r.dial()
		write(t, client2, "fresh")
		buffer := make([]byte, 5)
		_, err = io.ReadFull(server2, buffer)
		require.NoError(t, err)
	})
}

func TestBreaks(t *testing.T) {
	for name, c := range map[string]Conditions{"clean": {}, "slow": {Latency: time.Millisecond}} {
		inBubble(t, c, func(r rig) {
			r.BreakNext(Break{Toward: Server, After: 3, Do: Flip, Mask: 0x20})
			r.BreakNext(Break{Toward: Server, After: 5, Do: Reset})
			client, server := r.dial()
			write(t, client, "ab")
			n, err := client.Write([]byte("cdefghi"))
			require.Equal(t, 7, n, name)
			require.NoError(t, err)
			require.Equal(t, "abcDe", strings.Join(texts(arrivals(server)), ""), name)
			require.Equal(t, []string{"connection reset by peer 0s"}, arrivals(client))
			_, err = client.Write([]byte("j"))
			require.ErrorIs(t, err, syscall.ECONNRESET)

			client, server = r.dial()
			write(t, server, "12345")
			r.Break(Break{Toward: Client, After: 2, Do: Vanish})
			write(t, client, "y")
			write(t, server, "6789")
			write(t, client, "x")
			require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Minute)))
			require.Equal(t, "1234567", strings.Join(texts(arrivals(client)), ""), name)
			require.NoError(t, server.SetReadDeadline(time.Now().Add(time.Minute)))
			require.Equal(t, map[string]string{"clean": "y", "slow": ""}[name], strings.Join(texts(arrivals(server)), ""), "what is in flight is lost")

			client, server = r.dial()
			write(t, client, "others are whole")
			client.Close()
			require.Equal(t, "others are whole", strings.Join(texts(arrivals(server)), ""))
		})
	}
}

// texts returns the arrivals without times and end.
func texts(arrivals []string) (list []string) {
	for _, a := range arrivals[:len(arrivals)-1] {
		text, _, _ := strings.Cut(a, " ")
		if strings.HasPrefix(a, "others") {
			text = "others are whole"
		}
		list = append(list, text)
	}
	return list
}

func TestRefuse(t *testing.T) {
	inBubble(t, Conditions{Refuse: true}, func(r rig) {
		_, err := r.Dialer(nil)(r.Context(), "tcp", "any")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.ErrorContains(t, err, "dial tcp a: connection refused")
		r.Set(Conditions{})
		r.dial()
		broken := errors.New("broken")
		_, err = r.Dialer(func(context.Context, net.Conn) error { return broken })(r.Context(), "tcp", "any")
		require.ErrorIs(t, err, broken)
		require.Equal(t, 1, r.Open())
	})
}

// A later dial may finish first.
func TestDialsOvertake(t *testing.T) {
	inBubble(t, Conditions{DialDelay: time.Minute}, func(r rig) {
		var order []string
		done := make(chan string)
		for n := range 8 {
			go func() { r.dial(); done <- fmt.Sprint(n) }()
			time.Sleep(time.Second)
		}
		for range 8 {
			order = append(order, <-done)
		}
		require.False(t, slices.IsSorted(order), "%v", order)
	})
}

// A seed determines the arrivals, and no two directions deliver at the same instant.
func TestArrivalsRepeatAndNeverMeet(t *testing.T) {
	play := func(seed uint64, c Conditions) (log []string) {
		synctest.Test(t, func(t *testing.T) {
			n := New(seed)
			at := map[time.Time]string{}
			var mu sync.Mutex
			for _, name := range []string{"a", "b", "c"} {
				link := n.Link(name)
				link.Set(c)
				for range 3 {
					r := rig{t, link}
					client, server := r.dial()
					for i, c := range []net.Conn{client, server} {
						who := fmt.Sprint(c.LocalAddr(), i)
						go func() {
							buffer := make([]byte, 100)
							for {
								n, err := c.Read(buffer)
								if err != nil {
									return
								}
								mu.Lock()
								log = append(log, fmt.Sprintf("%s %d", who, n))
								now := time.Now()
								if other, taken := at[now]; taken && other != who {
									t.Errorf("%s and %s at %s", who, other, now)
								}
								at[now] = who
								mu.Unlock()
							}
						}()
						random := rand.New(rand.NewPCG(seed, uint64(len(name))))
						go func() {
							for range 50 {
								time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
								_, _ = c.Write(make([]byte, 1+random.IntN(30)))
							}
						}()
					}
				}
			}
			time.Sleep(time.Hour)
			mu.Lock()
			defer mu.Unlock()
		})
		return log
	}
	for _, c := range []Conditions{
		{Latency: time.Millisecond},
		{Latency: time.Millisecond, Jitter: 3 * time.Millisecond, Loss: 0.05, Segment: 7, Bandwidth: 100_000},
	} {
		first := play(1, c)
		require.Greater(t, len(first), 200)
		require.Equal(t, first, play(1, c))
		require.NotEqual(t, first, play(2, c))
	}
}

// Under any conditions of a link, its bytes arrive in order, and nothing hangs at the
// end.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random, sky := rand.New(rand.NewPCG(seed, 3)), rand.New(rand.NewPCG(seed, 4))
			link := New(seed).Link("a")
			weather := func() Conditions {
				return Conditions{
					Latency: time.Duration(sky.IntN(3)) * 10 * time.Millisecond, Jitter: time.Duration(sky.IntN(2)) * 30 * time.Millisecond,
					Loss: float64(sky.IntN(3)) / 10, Bandwidth: sky.IntN(2) * 20_000, Segment: sky.IntN(3) * 100, Partition: sky.IntN(3) == 0,
				}
			}
			link.Set(Conditions{})
			client, server := rig{t, link}.dial()
			sent := make([]byte, 150_000)
			for i := range sent {
				sent[i] = byte(i * 7 >> 3)
			}
			go func() {
				for rest := sent; len(rest) > 0; {
					n := min(len(rest), 1+random.IntN(5000))
					if _, err := client.Write(rest[:n]); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
					rest = rest[n:]
					time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
				}
				client.Close()
			}()
			var sun sync.WaitGroup
			sun.Go(func() {
				for range 60 {
					time.Sleep(time.Duration(sky.IntN(400)) * time.Millisecond)
					link.Set(weather())
				}
				link.Set(Conditions{})
			})
			defer sun.Wait()
			got, err := io.ReadAll(server)
			require.NoError(t, err, "seed %d", seed)
			require.Equal(t, len(sent), len(got), "seed %d", seed)
			require.True(t, string(sent) == string(got), "seed %d: other bytes", seed)
		})
	}
}
