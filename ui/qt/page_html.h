// SPDX-License-Identifier: Apache-2.0
// A page of sections and rows (ui/model/inspector.h) as the rich text of a QTextBrowser.
#pragma once

#include <QString>

#include "ui/model/inspector.h"

class QTextBrowser;
class QUrl;

namespace spscope::ui {

/// Rows that are links are "row/SECTION/ROW".
QString htmlOf(const InspectorPage& page);
/// The row that such a link means; nullptr: none.
const InspectorRow* rowOf(const InspectorPage& page, const QUrl& link);
/// Background and margins as all pages have them; then the page, where it is another one than is shown: a reader's place is kept.
void showPage(QTextBrowser& browser, const InspectorPage& page);

}  // namespace spscope::ui
