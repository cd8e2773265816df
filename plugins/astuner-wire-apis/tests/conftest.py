from gateway_stage import bodies, pytest_generate_tests, serving
from made_renderers import make_renderer, renderer
from openapi_document import api_document

__all__ = ["api_document", "bodies", "make_renderer", "pytest_generate_tests", "renderer", "serving"]
