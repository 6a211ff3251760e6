// Observation of the flows' segments and acknowledgments and of the arrivals at the car, and the trace file.
// The noise model is also here, because it processes every arrival.
#pragma once

// Release of ns-3 as a number, 329 for 3.29; build.py defines it for releases other than the wheel's.
#ifndef NS3_RELEASE
#define NS3_RELEASE 344
#define NS3_VERSION "3.44"
#endif

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <set>
#include <sstream>
#include <string>

using namespace ns3;

const char* const kTraceHeader = "kind,time_ns,flow,seq,len,retransmission,value,text";
constexpr uint16_t kFirstPort = 5000;

// Writer of trace lines of the chosen kinds; writes nothing without --trace.
class Trace
{
  public:
    void Open(const std::string& path, const std::string& kinds)
    {
        if (path.empty())
        {
            return;
        }
        m_file = std::fopen(path.c_str(), "w");
        NS_ABORT_MSG_UNLESS(m_file, "cannot write the trace file " << path);
        std::stringstream words(kinds);
        for (std::string kind; std::getline(words, kind, ',');)
        {
            m_kinds.insert(kind);
        }
        std::fprintf(m_file, "%s\n", kTraceHeader);
    }

    void Close()
    {
        if (m_file)
        {
            std::fclose(m_file);
        }
    }

    bool Wants(const char* kind) const
    {
        return m_file && m_kinds.count(kind);
    }

    void Write(const char* kind,
               uint32_t flow,
               uint64_t seq,
               uint64_t len,
               bool retransmission,
               int64_t value,
               const std::string& text = "")
    {
        std::fprintf(m_file,
                     "%s,%" PRId64 ",%u,%" PRIu64 ",%" PRIu64 ",%d,%" PRId64 ",%s\n",
                     kind,
                     Simulator::Now().GetNanoSeconds(),
                     flow,
                     seq,
                     len,
                     retransmission ? 1 : 0,
                     value,
                     text.c_str());
    }

  private:
    FILE* m_file = nullptr;
    std::set<std::string> m_kinds;
};

inline Trace g_trace;
inline uint32_t g_unfinished = 0;

struct Flow
{
    uint32_t number;
    std::string variant;
    Time start;
    uint64_t bytesWanted;
    Ptr<BulkSendApplication> source;
    Ptr<PacketSink> sink;

    uint64_t delivered = 0;
    Time lastByte;
    uint64_t highestSent = 0; // one past the highest sequence number sent, relative to the ISN
    uint64_t segments = 0;
    uint64_t retransmits = 0;
    uint64_t timeouts = 0;
    uint64_t fastRecoveries = 0;
    std::string state = "CLOSED";

    bool Completed() const
    {
        return bytesWanted && delivered >= bytesWanted;
    }

    // Returns the stream position of a sequence number. Connections start at 0 in ns-3, and numbers wrap at 2^32.
    // The result is therefore the position nearest to the highest one sent.
    uint64_t Unwrap(SequenceNumber32 seq) const
    {
        auto difference = static_cast<int32_t>(seq.GetValue() - static_cast<uint32_t>(highestSent));
        return highestSent + difference;
    }

    void OnSent(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase>)
    {
        uint32_t length = packet->GetSize();
        if (length == 0)
        {
            return;
        }
        uint64_t seq = Unwrap(header.GetSequenceNumber());
        bool again = seq < highestSent;
        segments++;
        retransmits += again;
        highestSent = std::max(highestSent, seq + length);
        if (g_trace.Wants("data"))
        {
            g_trace.Write("data", number, seq, length, again, 0, header.GetFlags() & TcpHeader::FIN ? "FIN" : "");
        }
    }

    void OnAck(Ptr<const Packet>, const TcpHeader& header, Ptr<const TcpSocketBase>)
    {
        if (!g_trace.Wants("ack"))
        {
            return;
        }
        std::ostringstream blocks;
        if (header.HasOption(TcpOption::SACK))
        {
            auto option = DynamicCast<const TcpOptionSack>(header.GetOption(TcpOption::SACK));
            for (const auto& block : option->GetSackList())
            {
                blocks << (blocks.tellp() > 0 ? " " : "") << Unwrap(block.first) << "-" << Unwrap(block.second);
            }
        }
        g_trace.Write("ack", number, Unwrap(header.GetAckNumber()), 0, false, header.GetWindowSize(), blocks.str());
    }

    void OnWindow(uint32_t, uint32_t now)
    {
        if (g_trace.Wants("cwnd"))
        {
            g_trace.Write("cwnd", number, 0, 0, false, now);
        }
    }

    void OnThreshold(uint32_t, uint32_t now)
    {
        if (g_trace.Wants("ssthresh"))
        {
            g_trace.Write("ssthresh", number, 0, 0, false, now);
        }
    }

    void OnCongestionState(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t now)
    {
        fastRecoveries += now == TcpSocketState::CA_RECOVERY;
        if (g_trace.Wants("state"))
        {
            g_trace.Write("state", number, 0, 0, false, now, TcpSocketState::TcpCongStateName[now]);
        }
    }

    // Only a retransmission time-out exactly doubles the RTO (60 s at most).
    void OnRto(Time before, Time now)
    {
        timeouts += now == std::min(before + before, Seconds(60)) && now > before;
        if (g_trace.Wants("rto"))
        {
            g_trace.Write("rto", number, 0, 0, false, now.GetNanoSeconds());
        }
    }

    void OnRtt(Time, Time now)
    {
        if (g_trace.Wants("rtt"))
        {
            g_trace.Write("rtt", number, 0, 0, false, now.GetNanoSeconds());
        }
    }

    void OnPacingRate(DataRate, DataRate now)
    {
        if (g_trace.Wants("pacing"))
        {
            g_trace.Write("pacing", number, 0, 0, false, now.GetBitRate());
        }
    }

    void OnState(TcpSocket::TcpStates_t, TcpSocket::TcpStates_t now)
    {
        state = TcpSocket::TcpStateName[now];
    }

    void OnDelivered(Ptr<const Packet> packet, const Address&)
    {
        bool before = Completed();
        delivered += packet->GetSize();
        lastByte = Simulator::Now();
        if (g_trace.Wants("sink"))
        {
            g_trace.Write("sink", number, delivered, packet->GetSize(), false, 0);
        }
        if (!before && Completed() && --g_unfinished == 0)
        {
            Simulator::Stop();
        }
    }

    // Call this after the application has started, because only then the socket exists; it has sent its SYN by then.
    void Attach(const std::string& groupVariant)
    {
        auto socket = DynamicCast<TcpSocketBase>(source->GetSocket());
        if (variant != groupVariant)
        {
            ObjectFactory factory(variant);
            socket->SetCongestionControlAlgorithm(factory.Create<TcpCongestionOps>());
        }
        socket->TraceConnectWithoutContext("Tx", MakeCallback(&Flow::OnSent, this));
        socket->TraceConnectWithoutContext("Rx", MakeCallback(&Flow::OnAck, this));
        socket->TraceConnectWithoutContext("CongestionWindow", MakeCallback(&Flow::OnWindow, this));
        socket->TraceConnectWithoutContext("SlowStartThreshold", MakeCallback(&Flow::OnThreshold, this));
        socket->TraceConnectWithoutContext("CongState", MakeCallback(&Flow::OnCongestionState, this));
        socket->TraceConnectWithoutContext("RTO", MakeCallback(&Flow::OnRto, this));
        socket->TraceConnectWithoutContext("RTT", MakeCallback(&Flow::OnRtt, this));
        socket->TraceConnectWithoutContext("PacingRate", MakeCallback(&Flow::OnPacingRate, this));
        socket->TraceConnectWithoutContext("State", MakeCallback(&Flow::OnState, this));
    }
};

// Noise model of one car: drops packets by arrival number, in bursts or at random, and counts them.
// Number 0 is the first packet to arrive (the SYN), and every IP fragment counts.
class Noise : public ErrorModel
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("roughlink::Noise").SetParent<ErrorModel>().AddConstructor<Noise>();
        return tid;
    }

    uint64_t arrivals = 0;
    uint64_t lost = 0;
    uint32_t firstFlow = 0;
    std::set<uint64_t> dropList;
    Ptr<ErrorModel> random; // burst or independent loss, by a model of ns-3

  private:
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        uint64_t arrival = arrivals++;
        bool drop = dropList.count(arrival) > 0;
        if (random)
        {
            drop |= random->IsCorrupt(packet);
        }
        lost += drop;
        if (g_trace.Wants("arrive"))
        {
            Describe(packet->Copy(), arrival, drop);
        }
        return drop;
    }

    // Writes the trace line of an arrival. `len` is the size of the IP packet. Only first fragments have a sequence
    // number.
    void Describe(Ptr<Packet> packet, uint64_t arrival, bool drop) const
    {
        PppHeader ppp;
        Ipv4Header ip;
        packet->RemoveHeader(ppp);
        uint32_t size = packet->GetSize();
        packet->RemoveHeader(ip);
        uint64_t seq = 0;
        uint32_t flow = firstFlow;
        std::string text = drop ? "dropped" : "";
        if (ip.GetFragmentOffset() == 0)
        {
            TcpHeader tcp;
            packet->PeekHeader(tcp);
            seq = tcp.GetSequenceNumber().GetValue();
            flow = firstFlow + tcp.GetDestinationPort() - kFirstPort;
        }
        else
        {
            text += text.empty() ? "fragment" : " fragment";
        }
        g_trace.Write("arrive", flow, seq, size, false, arrival, text);
    }

    void DoReset() override
    {
        arrivals = 0;
    }
};
