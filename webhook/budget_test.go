package webhook

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where a review is the only one, its size decides, and not what others have left.
func TestAReviewThatIsTooLargeIsToldSo(t *testing.T) {
	require.Greater(t, admissionBudget, maxAdmission)
	require.Greater(t, conversionBudget, maxConversion)
	for _, limit := range []int{100, firstRead - 1, firstRead, 4 * firstRead, 5 * firstRead} {
		held := newBudget(int64(limit) + 1)
		for code, size := range map[int]int{http.StatusOK: limit, http.StatusRequestEntityTooLarge: limit + 1} {
			var review conversionReview
			w := httptest.NewRecorder()
			body := strings.NewReader("{}" + strings.Repeat(" ", size-2))
			release, ok := read(w, httptest.NewRequest(http.MethodPost, "/", body), int64(limit), held, &review)
			require.Equal(t, code, w.Code, "limit %d: %s", limit, w.Body)
			if require.Equal(t, code == http.StatusOK, ok); ok {
				release()
			}
			require.EqualValues(t, limit+1, held.left.Load(), "it was given back")
		}
	}
}
