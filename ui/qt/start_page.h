// SPDX-License-Identifier: Apache-2.0
// What is seen before a model is open: open a file, recent ones, the samples that come with the program.
#pragma once

#include <QWidget>
#include <functional>
#include <string>
#include <vector>

class QLabel;
class QVBoxLayout;

namespace spscope::ui {

class StartPage : public QWidget {
 public:
  StartPage(std::function<void()> browse, std::function<void(const std::string&)> open, QWidget* parent = nullptr);
  void setFiles(const std::vector<std::string>& recent, const std::vector<std::string>& samples);
  /// What went wrong when opening, said here as well as in the log.
  void setMessage(const QString& text);

 private:
  void addList(const QString& title, const std::vector<std::string>& files, const QString& none);
  std::function<void(const std::string&)> open_;
  QVBoxLayout* lists_;
  QLabel* message_;
};

}  // namespace spscope::ui
