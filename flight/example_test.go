package flight_test

import (
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
)

// Print the timeline of one object.
func Example() {
	recorder := flight.New(1 << 20) // bytes
	pods := recorder.Track(flight.Label{Role: flight.Informer, Name: "pods"})
	key := object.Key{Namespace: "shop", Name: "web-0"}
	pods.Record(&flight.Event{At: time.Now(), Kind: flight.Applied, Key: key, RV: "7", Change: "add"})
	pods.Record(&flight.Event{At: time.Now(), Kind: flight.Applied, Key: key, RV: "9", Change: "update"})
	for _, e := range recorder.Timeline("pods", key) {
		fmt.Println(e.Kind, e.Change, e.RV)
	}
	// Output:
	// applied add 7
	// applied update 9
}
