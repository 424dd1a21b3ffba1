-- With BODIES posts each line of that file once: each of wrk's threads has a part of the file. Else repeats one GET. It runs on
-- the measured machine, so it does little work: the head of a request is made once, and each thread reads only its part.
-- Environment: BODIES, THREADS, PAUSE_MS (between the requests of one connection).

local bodies, pause = os.getenv("BODIES"), tonumber(os.getenv("PAUSE_MS") or "0")

if bodies then
  local number, file, left, head, last = 0, nil, nil, nil, nil

  function setup(thread)
    thread:set("share", number)
    number = number + 1
  end

  function init(args)
    local threads = tonumber(os.getenv("THREADS"))
    file = assert(io.open(bodies, "rb"))
    local size = file:seek("end")
    local first, after = math.floor(size * share / threads), math.floor(size * (share + 1) / threads)
    -- A line belongs to the part that it begins in; the byte before tells whether one begins here.
    file:seek("set", math.max(first - 1, 0))
    if first > 0 then file:read("*l") end
    left = after - file:seek()
    head = string.format(
      "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: ", wrk.path,
      wrk.headers["Host"])
  end

  if pause > 0 then
    -- Up to twice the pause at random, so that the connections do not synchronize.
    function delay() return math.random(0, 2 * pause) end
  end

  function request()
    local line = left > 0 and file:read("*l") or nil
    if line == nil then
      -- All are posted. Each connection asks once more before the thread stops, and gets the last line again.
      left = 0
      wrk.thread:stop()
      line = last or ""
    else
      left = left - #line - 1
      last = line
    end
    return head .. #line .. "\r\n\r\n" .. line
  end
else
  -- Some servers close the connection without this header.
  wrk.headers["Connection"] = "keep-alive"
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"seconds":%.3f,"p50":%.3f,"p90":%.3f,"p99":%.3f,"max":%.3f,"mean":%.3f,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
    latency:percentile(99) / 1e3, latency.max / 1e3, latency.mean / 1e3, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
