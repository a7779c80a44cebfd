package results

const randomText = "The ConfigMaps contain 50 MB of random text, which cannot be compressed."

// packedTargets are the targets for packed caches, in table order. If Keys is 1, handlers read only the keys,
// and so do client-go's.
func packedTargets() []Target {
	keys, whole := Params{Keys: 1}, Params{Keys: 0}
	targets := []Target{
		{What: "memory of a cached Pod", Scenario: "packed-sync", Params: keys, Metric: LivePerObject, Limit: 0.06, Against: ClientGo},
		{What: "the same at 150,000 Pods", Scenario: "packed-minute", Metric: LivePerObject, Limit: 0.055, Against: ClientGo,
			Missed: "Many Pods have changed since the list, and a changed Pod takes more: with 50,000 Pods, 841 bytes if all have changed and 777 if none has."},
		{What: "the same, if nothing repeats", Scenario: "packed-sync", Params: Params{Keys: 1, Hostile: 1}, Metric: LivePerObject, Limit: 0.35, Against: ClientGo},
		{What: "memory of a cached custom resource", Scenario: "packed-json", Metric: LivePerObject, Limit: 0.06, Against: ClientGo},
		{What: "peak memory, listing Pods, if handlers want keys", Scenario: "packed-sync", Params: keys, Metric: PeakRSS, Limit: 0.10, Against: ClientGo},
		{What: "the same, if handlers want objects", Scenario: "packed-sync", Params: whole, Metric: PeakRSS, Limit: 0.10, Against: ClientGo,
			Missed: "The objects made for handlers stay in memory until the next garbage collection."},
		{What: "smallest memory limit, 20,000 Pods and 5,000 ConfigMaps", Scenario: "limit", Metric: MemoryLimit, Limit: 0.10, Against: ClientGo,
			Missed: randomText},
		{What: "the same, under controller-runtime", Scenario: "limit", Contestant: ControllerRuntimePacked, Metric: MemoryLimit, Limit: 0.11, Against: ClientGo,
			Missed: randomText},
		{What: "list Pods, if handlers want keys", Scenario: "packed-sync", Params: keys, Metric: Wall, Limit: 0.10, Against: ClientGo,
			Missed: "Half of the CPU time checks a Pod's bytes as the decoder would and compresses them against a sibling; a seventh reads them from the network."},
		{What: "CPU for that", Scenario: "packed-sync", Params: keys, Metric: CPU, Limit: 0.15, Against: ClientGo,
			Missed: "As for the wall time."},
		{What: "list Pods, if handlers want objects", Scenario: "packed-sync", Params: whole, Metric: Wall, Limit: 0.20, Against: ClientGo,
			Missed: "After packing an object, the informer decodes it for its handler, which takes two fifths of the CPU time."},
		{What: "CPU for that", Scenario: "packed-sync", Params: whole, Metric: CPU, Limit: 0.30, Against: ClientGo,
			Missed: "As for the wall time."},
		{What: "CPU of a watch event, if handlers want keys", Scenario: "packed-watch", Params: keys, Metric: CPUPerEvent, Limit: 0.12, Against: ClientGo,
			Missed: "Checking and compressing the object take three fifths of it."},
		{What: "CPU of a watch event, if handlers want objects", Scenario: "packed-watch", Params: whole, Metric: CPUPerEvent, Limit: 0.35, Against: ClientGo,
			Missed: "The informer decodes both states of the object for the handler, which takes more than half of the CPU time."},
		{What: "peak memory in a minute of 1,000 events/s, 150,000 Pods", Scenario: "packed-minute", Metric: PeakRSS, Limit: 0.10, Against: ClientGo},
		{What: "CPU of the collector in that minute", Scenario: "packed-minute", Metric: CollectorCPU, Limit: 0.10, Against: ClientGo},
		{What: "get an object that is in use", Scenario: "packed-read", Metric: GetUsed, Limit: 150e-9},
		{What: "get another object, sharing its parts", Scenario: "packed-read", Metric: GetOther, Limit: 1.2, Against: ControllerRuntime,
			Missed: "The cache unpacks and decodes the bytes; controller-runtime copies an object that it holds."},
		{What: "get another object, as a copy", Scenario: "packed-read", Contestant: ControllerRuntimePacked, Metric: GetOther, Limit: 2, Against: ControllerRuntime,
			Missed: "The cache unpacks and decodes the bytes; controller-runtime copies an object that it holds."},
		{What: "a thousand objects by an index, as copies", Scenario: "packed-read", Contestant: ControllerRuntimePacked, Metric: Thousand, Limit: 1, Against: ControllerRuntime,
			Missed: "The cache unpacks and decodes each object; controller-runtime copies objects that it holds."},
		{What: "peak memory, listing a million Pods", Scenario: "million", Params: Params{Objects: 1_000_000}, Metric: PeakRSS, Limit: 1.2e9},
		{What: "restart, nothing changed, until a handler is called", Scenario: "restart", Params: Params{Expired: 0}, Metric: FirstCall, Limit: 0.1},
		{What: "restart, the version has expired, until synced", Scenario: "restart", Params: Params{Expired: 1}, Metric: Wall, Limit: 1.5, Against: Floor,
			Missed: "The informer first reads the snapshot, and looks up each listed object in it by UID and version; the floor discards the bytes."},
	}
	for i := range targets {
		if targets[i].Contestant == "" {
			targets[i].Contestant = MillracePacked
		}
	}
	return targets
}
