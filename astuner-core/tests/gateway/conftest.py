from gateway_stage import bodies, pytest_generate_tests, serving
from openapi_document import api_document

__all__ = ["api_document", "bodies", "pytest_generate_tests", "serving"]
