#pragma once

#include <set>
#include <string>
#include <vector>

#include "axonn/coconet/plan/schedule_plan.hpp"

namespace axonn::coconet {

// Makes the plan of a program: first where every value lies, then one step per section or
// statement.
class Lowering {
 public:
  explicit Lowering(SchedulePlan& plan) : plan_(plan), program_(plan.program()) {}
  void run();

 private:
  // Homes of values: storage that exists anyway, where that is safe.
  void choose_homes();
  std::string home_of(const Statement& statement) const;
  std::string stored_by(const std::string& value) const;
  bool nobody_reads_after(const std::string& tensor, const Statement& writer) const;
  bool in_place(const Statement& statement) const;
  bool stays_in_messages(const Statement& statement) const;
  bool is_view_in_place(const Statement& statement) const;
  bool stays_in_registers(const std::string& value) const;
  bool only_products_read(const std::string& tensor) const;

  void add_section(const std::string& name);
  void add_member(const std::string& name, const std::vector<std::string>& section);
  void add_overlap(const Section& overlap, const std::vector<std::string>& statements);
  void add_transfer(const Section& overlap);
  const Section* overlap_of(const std::string& statement) const;
  bool sends(const Section& overlap) const;
  void add_step(const std::vector<std::string>& statements, const std::string& name);
  bool is_stored_already(const Statement& statement) const;
  bool stores_a_gather(const std::string& name, const std::vector<std::string>& section) const;
  void check_section(const PlanStep& step) const;
  void check_extents(const PlanStep& step) const;
  int group_of(const std::string& statement) const;
  void collect_accesses(PlanStep& step) const;
  void collect_reads(const Expression& expression, PlanStep& step, const std::set<std::string>& inside) const;
  void add_waits();

  static Extent extent_of(const Distribution& lies);
  Extent extent_of(const std::string& value) const;
  bool is_plain(const std::string& value) const;
  bool is_number(const std::string& value) const;

  SchedulePlan& plan_;
  const Program& program_;
};

}  // namespace axonn::coconet
