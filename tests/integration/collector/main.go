// The OpenTelemetry Collector's own OTLP receiver, for tests: what it takes goes to standard
// output, a line of the collector's JSON for each request.
//
//	collector 127.0.0.1:PORT
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

var output sync.Mutex

func write(line []byte, err error) error {
	if err != nil {
		return err
	}
	output.Lock()
	defer output.Unlock()
	_, err = fmt.Printf("%s\n", line)
	return err
}

func run(address string) error {
	ctx := context.Background()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	protocols := map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}}
	if err := confmap.NewFromStringMap(protocols).Unmarshal(config); err != nil {
		return err
	}
	settings := receivertest.NewNopSettings(factory.Type())
	traces, err := consumer.NewTraces(func(_ context.Context, data ptrace.Traces) error {
		return write((&ptrace.JSONMarshaler{}).MarshalTraces(data))
	})
	if err != nil {
		return err
	}
	metrics, err := consumer.NewMetrics(func(_ context.Context, data pmetric.Metrics) error {
		return write((&pmetric.JSONMarshaler{}).MarshalMetrics(data))
	})
	if err != nil {
		return err
	}
	logs, err := consumer.NewLogs(func(_ context.Context, data plog.Logs) error {
		return write((&plog.JSONMarshaler{}).MarshalLogs(data))
	})
	if err != nil {
		return err
	}
	// The three are one receiver behind one socket.
	forTraces, err := factory.CreateTraces(ctx, settings, config, traces)
	if err != nil {
		return err
	}
	if _, err = factory.CreateMetrics(ctx, settings, config, metrics); err != nil {
		return err
	}
	if _, err = factory.CreateLogs(ctx, settings, config, logs); err != nil {
		return err
	}
	if err = forTraces.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
	return forTraces.Shutdown(ctx)
}

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
