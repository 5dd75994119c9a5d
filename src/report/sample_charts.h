#pragma once

#include "report/chart.h"
#include "report/page.h"

/// Charts as studies draw them, of made-up numbers: for tests, and for looking at.
namespace monkeytree {

LineChart sample_line_chart();
BarChart sample_bar_chart();
HeatMap sample_heat_map();
QuantileChart sample_quantile_chart();
/// `points` for each series, on a time axis.
StepChart sample_step_chart(int points);
DistributionChart sample_distribution_chart();
RackPicture sample_rack_picture();

/// A page with all of them.
Page sample_page();

}  // namespace monkeytree
