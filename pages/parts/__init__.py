"""What the pages share and needs Streamlit: the state behind the link, the sidebar, figures with their words, resources."""

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

# Until st.navigation has been called once in a server, Streamlit takes a folder called pages/ for its older kind of app, and a link
# straight to a page would run that page without app.py: no sidebar, no state. Every page imports this package first, so
# the very first run of such a server ends here, and starts again as it should. There is no setting for it.
if PagesManager.uses_pages_directory:
    PagesManager.uses_pages_directory = False
    st.rerun()
