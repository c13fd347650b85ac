"""The coverage laboratory: how often intervals contain the truth, with your data as the population."""

from surefair.calibration.audits import calibrate_audit
from surefair.calibration.result import Calibration
from surefair.calibration.run import calibrate

__all__ = ["Calibration", "calibrate", "calibrate_audit"]
