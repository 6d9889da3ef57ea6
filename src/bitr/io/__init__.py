"""Reading and writing clouds and meshes."""
