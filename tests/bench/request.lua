-- The request that wrk sends, from the environment; and its result as one line of JSON.
wrk.method = "POST"
wrk.body = os.getenv("BENCH_BODY")
wrk.headers["content-type"] = "application/json"
wrk.headers["authorization"] = "Bearer " .. os.getenv("BENCH_KEY")

function done(summary, latency)
    local errors = summary.errors
    io.stderr:write(string.format('{"requests":%d,"seconds":%.6f,"failed":%d,"p50_us":%d,"p99_us":%d}\n',
        summary.requests, summary.duration / 1e6,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency:percentile(50), latency:percentile(99)))
end
