package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/understudy-lb/understudy/admin"
)

func ExampleToken() {
	var none admin.Token // no --admin-token: nobody changes anything
	h := none.Change(http.NotFoundHandler())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/sessions/end", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 401 changes need the token of --admin-token
}
