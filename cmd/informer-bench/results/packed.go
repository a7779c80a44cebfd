package results

// packedTargets are the targets of packed caches, in the order of their table. With Keys set to 1, handlers
// look only at keys, also in client-go.
func packedTargets() []Target {
	keys, whole := Params{Keys: 1}, Params{Keys: 0}
	targets := []Target{
		{What: "memory of a cached Pod", Scenario: "packed-sync", Params: keys, Metric: LivePerObject, Limit: 0.06, Against: ClientGo},
		{What: "the same at 150,000 Pods", Scenario: "packed-minute", Metric: LivePerObject, Limit: 0.055, Against: ClientGo,
			Missed: "Many of the Pods have changed since the list, and a changed one takes more: 841 bytes where all have, and 777 where none has, at 50,000."},
		{What: "the same where nothing repeats", Scenario: "packed-sync", Params: Params{Keys: 1, Hostile: 1}, Metric: LivePerObject, Limit: 0.35, Against: ClientGo},
		{What: "memory of a cached custom resource", Scenario: "packed-json", Metric: LivePerObject, Limit: 0.06, Against: ClientGo},
		{What: "peak memory, listing Pods; handlers want keys", Scenario: "packed-sync", Params: keys, Metric: PeakRSS, Limit: 0.10, Against: ClientGo},
		{What: "the same; handlers want objects", Scenario: "packed-sync", Params: whole, Metric: PeakRSS, Limit: 0.10, Against: ClientGo,
			Missed: "What handlers were given is garbage until the next collection."},
		{What: "smallest memory limit, 20,000 Pods", Scenario: "limit", Metric: MemoryLimit, Limit: 0.10, Against: ClientGo},
		{What: "list Pods; handlers want keys", Scenario: "packed-sync", Params: keys, Metric: Wall, Limit: 0.10, Against: ClientGo,
			Missed: "A Pod takes 16 µs: 5 to check its bytes as the decoder would, 4 to compress them against a sibling, 3 to read them from the network, 1 to cache it, and the rest for memory and for handing work to another processor. To check and to compress in one walk would save 2."},
		{What: "CPU for that", Scenario: "packed-sync", Params: keys, Metric: CPU, Limit: 0.10, Against: ClientGo,
			Missed: "See above."},
		{What: "list Pods; handlers want objects", Scenario: "packed-sync", Params: whole, Metric: Wall, Limit: 0.20, Against: ClientGo,
			Missed: "Besides being packed, each object is made once for its handler, which takes 12 µs: as long as to decode it."},
		{What: "CPU for that", Scenario: "packed-sync", Params: whole, Metric: CPU, Limit: 0.25, Against: ClientGo,
			Missed: "See above."},
		{What: "CPU of a watch event; handlers want keys", Scenario: "packed-watch", Params: keys, Metric: CPUPerEvent, Limit: 0.08, Against: ClientGo,
			Missed: "Compressing and checking come to more than that: see list Pods."},
		{What: "CPU of a watch event; handlers want objects", Scenario: "packed-watch", Params: whole, Metric: CPUPerEvent, Limit: 0.20, Against: ClientGo,
			Missed: "An event is packed, and both its states are made into objects for the handler: 15 µs for the new one, 6 for the old one beside it, and 3 to unpack both."},
		{What: "peak memory in a minute of 1,000 events/s, 150,000 Pods", Scenario: "packed-minute", Metric: PeakRSS, Limit: 0.10, Against: ClientGo},
		{What: "CPU of the collector in that minute", Scenario: "packed-minute", Metric: CollectorCPU, Limit: 0.10, Against: ClientGo},
		{What: "get an object that is in use", Scenario: "packed-read", Metric: GetUsed, Limit: 150e-9},
		{What: "get another one, parts shared", Scenario: "packed-read", Metric: GetOther, Limit: 1.2, Against: ControllerRuntime,
			Missed: "The bytes are unpacked and decoded; controller-runtime copies an object that it holds."},
		{What: "get another one, as one's own", Scenario: "packed-read", Contestant: ControllerRuntimePacked, Metric: GetOther, Limit: 2, Against: ControllerRuntime,
			Missed: "The bytes are unpacked and decoded; controller-runtime copies an object that it holds."},
		{What: "a thousand objects by an index, as one's own", Scenario: "packed-read", Contestant: ControllerRuntimePacked, Metric: Thousand, Limit: 1, Against: ControllerRuntime,
			Missed: "Each is unpacked and decoded; controller-runtime copies objects that it holds."},
		{What: "peak memory, listing a million Pods", Scenario: "million", Params: Params{Objects: 1_000_000}, Metric: PeakRSS, Limit: 1.2e9},
		{What: "start again, nothing changed, until a handler is called", Scenario: "restart", Params: Params{Expired: 0}, Metric: FirstCall, Limit: 0.1},
		{What: "the same where the version has expired, until synced", Scenario: "restart", Params: Params{Expired: 1}, Metric: Wall, Limit: 1.1, Against: Floor,
			Missed: "The snapshot is read first, and each item of the list is looked up by UID and version, while the floor throws bytes away."},
	}
	for i := range targets {
		if targets[i].Contestant == "" {
			targets[i].Contestant = MillracePacked
		}
	}
	return targets
}
