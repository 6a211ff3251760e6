// Bulk TCP transfers over a rough link on htsim (Broadcom/csg-htsim), without loggers.
//
//   sa --(rate1, delay1)-- secc --(rate2, delay2, queue, burst losses)-- evcc
//
// The workload and the JSON output are those of ../ns3/bulk.cc: `groups` chains that share nothing, each with
// `flows-per-group` downloads sa -> evcc. Losses affect only packets towards evcc. htsim counts whole packets, of which
// each delivers `segment` bytes; it has no SACK and acknowledges every packet.
//
// Units on the command line: rates in bit/s, times in ns, sizes in bytes, queue in packets.

#include "config.h"
#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "tcp.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace {

constexpr simtime_picosec kPicosecondsPerNanosecond = 1000;

class Options {
public:
    Options(int argc, char** argv) {
        for (int i = 1; i < argc; i++) {
            const std::string argument = argv[i];
            const size_t sign = argument.find('=');
            if (argument.compare(0, 2, "--") != 0 || sign == std::string::npos) {
                Fail("expected --key=value, not " + argument);
            }
            _values[argument.substr(2, sign - 2)] = std::strtod(argument.c_str() + sign + 1, nullptr);
        }
    }

    double Get(const std::string& key) const {
        const auto found = _values.find(key);
        if (found == _values.end()) {
            Fail("missing --" + key);
        }
        return found->second;
    }

private:
    [[noreturn]] static void Fail(const std::string& why) {
        std::fprintf(stderr, "error: %s\n", why.c_str());
        std::exit(2);
    }

    std::map<std::string, double> _values;
};

// Drops bursts of 1 to 4 packets; each packet outside of a burst starts one with probability `start`.
class BurstLoss : public PacketSink {
public:
    BurstLoss(double start, uint64_t seed) : _random(seed), _starts(start) {}

    void receivePacket(Packet& packet) override {
        if (_left == 0 && _starts(_random)) {
            _left = _length(_random);
        }
        if (_left == 0) {
            packet.sendOn();
            return;
        }
        _left--;
        packet.free();
    }

    const std::string& nodename() override { return _name; }

private:
    std::string _name = "loss";
    std::mt19937_64 _random;
    std::bernoulli_distribution _starts;
    std::uniform_int_distribution<int> _length{1, 4};
    int _left = 0;
};

// One direction of a link. htsim counts the packet on the wire as part of the queue.
struct Direction {
    std::unique_ptr<Queue> queue;
    std::unique_ptr<Pipe> pipe;

    Direction(double rate, double delayNs, const Options& options, EventList& events)
        : queue(new Queue(static_cast<linkspeed_bps>(rate),
                          static_cast<mem_b>((options.Get("queue") + 1) * options.Get("mtu")), events, nullptr)),
          pipe(new Pipe(static_cast<simtime_picosec>(delayNs) * kPicosecondsPerNanosecond, events)) {}

    void AppendTo(Route& route) const {
        route.push_back(queue.get());
        route.push_back(pipe.get());
    }
};

struct Flow {
    TcpSrc source;
    TcpSink sink;
    Route out;
    Route back;

    explicit Flow(EventList& events) : source(nullptr, nullptr, events) {}
};

struct Group {
    Direction internet, plc, plcBack, internetBack;
    BurstLoss loss;
    std::vector<std::unique_ptr<Flow>> flows;

    Group(const Options& options, uint64_t seed, EventList& events)
        : internet(options.Get("rate1"), options.Get("delay1"), options, events),
          plc(options.Get("rate2"), options.Get("delay2"), options, events),
          plcBack(options.Get("rate2"), options.Get("delay2"), options, events),
          internetBack(options.Get("rate1"), options.Get("delay1"), options, events),
          loss(options.Get("burst-start"), seed) {}

    void AddFlow(const Options& options, EventList& events, TcpRtxTimerScanner& timers) {
        flows.emplace_back(new Flow(events));
        Flow& flow = *flows.back();
        internet.AppendTo(flow.out);
        plc.AppendTo(flow.out);
        if (options.Get("burst-start") > 0) {
            flow.out.push_back(&loss);
        }
        flow.out.push_back(&flow.sink);
        plcBack.AppendTo(flow.back);
        internetBack.AppendTo(flow.back);
        flow.back.push_back(&flow.source);
        flow.source._maxcwnd = static_cast<uint32_t>(options.Get("window"));
        flow.source.set_ssthresh(0xffffffff);
        timers.registerTcp(flow.source);
        flow.source.connect(flow.out, flow.back, flow.sink, 0);
    }
};

// Returns the largest resident set in kB. ru_maxrss includes that of the process that started this one.
long PeakRss() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.compare(0, 6, "VmHWM:") == 0) {
            return std::stol(line.substr(6));
        }
    }
    return 0;
}

double InSeconds(const timeval& time) {
    return time.tv_sec + time.tv_usec * 1e-6;
}

} // namespace

int main(int argc, char** argv) {
    const Options options(argc, argv);
    // htsim reports each time-out on standard output.
    std::cout.setstate(std::ios_base::failbit);
    Packet::set_packet_size(static_cast<int>(options.Get("mtu")));
    EventList& events = EventList::getTheEventList();
    EventList::setEndtime(timeFromSec(options.Get("duration")));
    TcpRtxTimerScanner timers(timeFromMs(10), events);
    std::vector<std::unique_ptr<Group>> groups;
    for (int i = 0; i < options.Get("groups"); i++) {
        groups.emplace_back(new Group(options, static_cast<uint64_t>(options.Get("seed")) << 32 | i, events));
        for (int j = 0; j < options.Get("flows-per-group"); j++) {
            groups.back()->AddFlow(options, events, timers);
        }
    }

    rusage before, after;
    uint64_t count = 0;
    getrusage(RUSAGE_SELF, &before);
    while (EventList::doNextEvent()) {
        count++;
    }
    getrusage(RUSAGE_SELF, &after);

    std::printf("{\"simulator\":\"htsim\",\"user_s\":%.6f,\"events\":%llu,\"peak_rss_kb\":%ld,\"flows\":[",
                InSeconds(after.ru_utime) - InSeconds(before.ru_utime), static_cast<unsigned long long>(count),
                PeakRss());
    const char* separator = "";
    for (const auto& group : groups) {
        for (const auto& flow : group->flows) {
            const double packets = flow->sink._cumulative_ack / options.Get("mtu");
            std::printf("%s{\"delivered_bytes\":%.0f}", separator, packets * options.Get("segment"));
            separator = ",";
        }
    }
    std::printf("]}\n");
}
