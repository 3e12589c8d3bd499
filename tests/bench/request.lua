-- The request that wrk sends, from the environment: a POST if there is a body, else a
-- GET; and its result as one line of JSON.
wrk.body = os.getenv("BENCH_BODY")
if wrk.body then
    wrk.method = "POST"
    wrk.headers["content-type"] = "application/json"
end
if os.getenv("BENCH_KEY") then
    wrk.headers["authorization"] = "Bearer " .. os.getenv("BENCH_KEY")
end
for name, value in (os.getenv("BENCH_HEADERS") or ""):gmatch("([^:\n]+): ([^\n]+)") do
    wrk.headers[name] = value
end

function done(summary, latency)
    local errors = summary.errors
    io.stderr:write(string.format('{"requests":%d,"seconds":%.6f,"failed":%d,"p50_us":%d,"p99_us":%d}\n',
        summary.requests, summary.duration / 1e6,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout,
        latency:percentile(50), latency:percentile(99)))
end
