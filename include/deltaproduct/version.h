// The version of these headers.
#pragma once

#define DELTAPRODUCT_VERSION "0.1.0"
