package status_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/understudy-lb/understudy/proxy/status"
)

// An admin listener's handler, asked for its health.
func ExampleNew() {
	h, err := status.New(status.Config{Snapshot: func() status.Snapshot {
		return status.Snapshot{Workers: []status.Worker{{Name: "shop", Type: "lb"}}}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 200 ok
}
