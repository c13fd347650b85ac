"""The coverage laboratory: how often intervals contain the truth, with your data as the population."""

from surefair.calibration.result import Calibration
from surefair.calibration.run import Request, calibrate, calibrate_rows

__all__ = ["Calibration", "Request", "calibrate", "calibrate_rows"]
