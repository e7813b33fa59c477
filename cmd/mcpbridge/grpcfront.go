package main

import "context"

func (a *App) newGRPCFront(context.Context) (front, error) {
	return nil, usage(a.cfg.where("serve.grpc.addr"), "leave it out", "gRPC cannot be served yet")
}
