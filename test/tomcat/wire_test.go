package tomcat

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// What passes through AJP13 arrives, both ways, with the packet sizes of mod_jk.md
// 2.2 and a secret that is required (7.6).
func TestWire(t *testing.T) {
	for _, size := range []int{8192, 65536} {
		t.Run(fmt.Sprint("packetSize=", size), func(t *testing.T) {
			s := newSite(t, []string{"a"}, nil, "", func(n *node) { n.PacketSize = size })
			b := s.browser()
			t.Run("request", func(t *testing.T) { request(t, s, b) })
			t.Run("uploads", func(t *testing.T) { uploads(t, b) })
			t.Run("downloads", func(t *testing.T) { downloads(t, b) })
			t.Run("replies", func(t *testing.T) { replies(t, b) })
			t.Run("stream", func(t *testing.T) { stream(t, s, b) })
			t.Run("long heads", func(t *testing.T) { longHeads(t, b, size) })
		})
	}
}

// request checks what the application sees of a request.
func request(t *testing.T, s *site, b *browser) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPatch, "http://"+s.addr+"/shop/request/../request;v=1?a=%20b&", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "shop.test:8443"
	r.Header.Set("X-City", "Z\xfcrich")
	r.Header["X-Twice"] = []string{"1", "2"}
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	r.Header.Set("X-Forwarded-Proto", "https")
	a, err := b.send(r)
	if err != nil || a.status != 200 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, want := range []string{
		"PATCH /shop/request/../request;v=1 a=%20b& HTTP/1.1\n", "remote 127.0.0.1 ", "local 127.0.0.1\n",
		"server shop.test 8443\n", "scheme http false\n", "activation ACT\n",
		"header x-city: Zürich\n", "header x-twice: 1\n", "header x-twice: 2\n", "header content-length: 4\n", "header x-request-id: ",
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the application does not see %q but\n%s", want, a.body)
		}
	}
	if strings.Contains(a.body, "x-forwarded") {
		t.Errorf("the application sees what anybody can claim:\n%s", a.body)
	}
}

func pattern(n int) []byte {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// uploads checks bodies around the lengths of packets, with and without a length.
func uploads(t *testing.T, b *browser) {
	for _, n := range []int{0, 1, 8185, 8186, 8187, 16372, 65529, 65530, 65531, 300_000, 3_000_000} {
		body := pattern(n)
		want := fmt.Sprint(n, " ", crc32.ChecksumIEEE(body))
		for _, in := range []io.Reader{bytes.NewReader(body), io.MultiReader(bytes.NewReader(body))} {
			if a := b.must(http.MethodPost, "/upload", in); a.body != want {
				t.Errorf("%d bytes in %T: the application got %q, want %q", n, in, a.body, want)
			}
		}
	}
	// Nobody reads it: the reply is passed on all the same.
	for range 3 {
		if a, err := b.do(http.MethodPost, "/early", bytes.NewReader(pattern(1_000_000))); err == nil && a.status != 413 {
			t.Errorf("an early reply: %+v", a)
		}
	}
}

// downloads checks long replies, with and without a length.
func downloads(t *testing.T, b *browser) {
	for _, n := range []int64{0, 1, 8184, 8185, 1 << 20, 1 << 30} {
		for _, form := range []string{"", "&chunked=1"} {
			if n == 1<<30 && form != "" {
				continue
			}
			resp, err := b.http.Get(fmt.Sprintf("http://%s/shop/big?bytes=%d%s", b.s.addr, n, form))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil || got != n || form == "" && resp.ContentLength != n {
				t.Errorf("%d bytes%s: %d, length %d, %v", n, form, got, resp.ContentLength, err)
			}
		}
	}
}

// replies checks heads of replies.
func replies(t *testing.T, b *browser) {
	a := b.must(http.MethodGet, "/header", nil)
	if got := a.header.Get("X-City"); got != "Z\xfcrich" {
		t.Errorf("X-City is %q", got)
	}
	resp, err := b.http.Head("http://" + b.s.addr + "/shop/big?bytes=12345")
	if err != nil || resp.ContentLength != 12345 {
		t.Errorf("HEAD: %+v, %v", resp, err)
	}
	for path, status := range map[string]int{"/error": 500, "/none": 404} {
		if a, err := b.do(http.MethodGet, path, nil); err != nil || a.status != status {
			t.Errorf("%s: %d, %v; want %d", path, a.status, err, status)
		}
	}
}

// stream checks that what either side says arrives at once.
func stream(t *testing.T, s *site, b *browser) {
	pr, pw := io.Pipe()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+s.addr+"/shop/stream", pr)
	if err != nil {
		t.Fatal(err)
	}
	go fmt.Fprintln(pw, "0")
	resp, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for i := range 5 {
		if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintln(i) {
			t.Fatalf("line %d is %q, %v", i, line, err)
		}
		if i < 4 {
			fmt.Fprintln(pw, i+1)
		}
	}
	pw.Close()
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("at the end %q, %v", rest, err)
	}
}

// longHeads checks requests whose head fits a packet only just, or does not
// (mod_jk.md 4.2).
func longHeads(t *testing.T, b *browser, size int) {
	for n, want := range map[int]int{7000: 200, 9000: 413, 50_000: 413} {
		if n+1000 < size {
			want = 200
		}
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+b.s.addr+"/shop/header", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("v", n))
		if a, err := b.send(r); err != nil || a.status != want {
			t.Errorf("a header of %d bytes: %d, %v; want %d", n, a.status, err, want)
		}
	}
}

// Without the secret a Tomcat refuses everything (mod_jk.md 7.6).
func TestWrongSecret(t *testing.T) {
	s := newSite(t, []string{"a"}, nil, "worker.a.secret=wrong\n", nil)
	if a, err := s.browser().do(http.MethodGet, "/header", nil); err != nil || a.status != 403 {
		t.Errorf("%d, %v; want 403", a.status, err)
	}
}
