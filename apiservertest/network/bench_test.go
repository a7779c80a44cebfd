package network

import (
	"io"
	"net"
	"testing"
	"time"
)

// transfer sends frames of a given size in one direction, like a watch.
func transfer(b *testing.B, client, server net.Conn, size int) {
	defer client.Close()
	defer server.Close()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	go func() {
		frame := make([]byte, size)
		for range b.N {
			if _, err := server.Write(frame); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, size)
	for range b.N {
		if _, err := io.ReadFull(client, buffer); err != nil {
			b.Fatal(err)
		}
	}
}

// roundTrip sends a request and a response.
func roundTrip(b *testing.B, client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	b.ReportAllocs()
	go func() { _, _ = io.Copy(server, server) }()
	buffer := make([]byte, 200)
	for range b.N {
		if _, err := client.Write(buffer); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(client, buffer); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPipes(b *testing.B) {
	link := New(1).Link("a")
	for name, connect := range map[string]func() (net.Conn, net.Conn){
		"net.Pipe": net.Pipe,
		"Pipe":     Pipe,
		"Link": func() (net.Conn, net.Conn) {
			client, server, err := link.connect(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			return client, server
		},
	} {
		b.Run("frames/"+name, func(b *testing.B) {
			client, server := connect()
			transfer(b, client, server, 1000)
		})
		b.Run("roundtrip/"+name, func(b *testing.B) {
			client, server := connect()
			roundTrip(b, client, server)
		})
		b.Run("connect/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				client, server := connect()
				_ = client.SetReadDeadline(time.Time{})
				client.Close()
				server.Close()
			}
		})
	}
}
