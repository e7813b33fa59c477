package plugin

func beBridge(string) {}
