package status

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestChangeWorker: who may change what through the admin listener (D11), and what
// is asked for then.
func TestChangeWorker(t *testing.T) {
	tests := []struct {
		method, path, form, auth string
		status                   int
		want                     Change
	}{
		{"POST", "/api/workers/shop/set?member=n1&lbfactor=2&activation=D", "", secret, 200, Change{Worker: "shop", Member: "n1", Set: []Property{{"activation", "D"}, {"lbfactor", "2"}}}},
		{"POST", "/api/workers/a%2Fb/set?domain=", "", secret, 200, Change{Worker: "a/b", Set: []Property{{"domain", ""}}}},
		{"POST", "/api/workers/shop/set", "lbfactor=3&token=a+token+that+nobody+guesses", "", 200, Change{Worker: "shop", Set: []Property{{"lbfactor", "3"}}}},
		{"POST", "/api/workers/shop/reset", "", secret, 200, Change{Do: DeedReset, Worker: "shop"}},
		{"POST", "/api/workers/shop/recover?member=n2", "", secret, 200, Change{Do: DeedRecover, Worker: "shop", Member: "n2"}},
		{"POST", "/api/workers/shop/set", "", secret, 400, Change{}},
		{"POST", "/api/workers/shop/set?lbfactor=2", "", "guess", 401, Change{}},
		{"GET", "/api/workers/shop/set?lbfactor=2", "", secret, 405, Change{}},
		{"POST", "/api/workers/shop/explode", "", secret, 404, Change{}},
	}
	for _, tt := range tests {
		var got []Change
		h, err := New(Config{Snapshot: sample, Token: token(t, secret), Change: func(ch Change) error { got = append(got, ch); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.form))
		if tt.form != "" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if tt.auth != "" {
			r.Header.Set("Authorization", "Bearer "+tt.auth)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var want []Change
		if tt.status == http.StatusOK {
			want = []Change{tt.want}
		}
		if w.Code != tt.status || !equalChanges(got, want) {
			t.Errorf("%s %s: %d %s, changes %+v; want %d, %+v", tt.method, tt.path, w.Code, w.Body, got, tt.status, want)
		}
	}
}

// TestSettings: what can be changed is named as in workers.properties.
func TestSettings(t *testing.T) {
	s := jkSample()
	shop, solo := &s.Workers[0], &s.Workers[1]
	for _, tt := range []struct {
		of   string
		all  []Property
		n    int
		want Property
	}{
		{"an lb", Settings(shop, nil), 9, Property{"recover_time", "60"}},
		{"a member", Settings(shop, &shop.Members[1]), 19, Property{"activation", "D"}},
		{"a single server", Settings(solo, nil), 13, Property{"ping_timeout", "10000"}},
		{"nobody", Settings(&Worker{Name: "x", Type: "http"}, nil), 0, Property{}},
	} {
		found := tt.want == Property{}
		for _, p := range tt.all {
			found = found || p == tt.want
		}
		if len(tt.all) != tt.n || !found {
			t.Errorf("%s: %d settings %v, want %d with %v", tt.of, len(tt.all), tt.all, tt.n, tt.want)
		}
	}
}
