#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "service/agent_hub.h"
#include "wire/agents.grpc.pb.h"

namespace monkeytree {

/// Takes the streams that agents open.
class AgentService final : public wire::v1::Agents::CallbackService {
 public:
  explicit AgentService(std::shared_ptr<AgentHub> hub) : hub_(std::move(hub)) {}
  grpc::ServerBidiReactor<wire::v1::FromAgent, wire::v1::ToAgent>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  std::shared_ptr<AgentHub> hub_;
};

}  // namespace monkeytree
